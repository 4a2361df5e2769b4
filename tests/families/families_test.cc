// What of real models may leave the device. The archives are traced models of
// diffusers (trace_families.py) and the demo's; an analysis that trusts less
// and less must not keep all of them resident.
#include <gtest/gtest.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/serialization/import.h>

#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <ostream>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "offload/module_discovery.h"
#include "offload/module_tree.h"
#include "pipelines/torchscript/module_tree_reader.h"
#include "pipelines/torchscript/torchscript_module.h"

namespace ferry {
namespace {

struct Family {
  const char* name = nullptr;
  // Relative to the repository's root.
  const char* path = nullptr;
  int blocks = 0;
  // Bytes of blocks that may be streamed ÷ bytes of blocks, in percent, by the
  // first analysis, which trusted every operator.
  double streamed_percent = 0;
};

void PrintTo(const Family& family, std::ostream* out) { *out << family.name; }

// Bytes of blocks.
struct BlockBytes {
  int64_t all = 0;
  int64_t streamed = 0;
  int blocks = 0;
  // By path and reason.
  std::map<std::string, int64_t> resident;
};

void add_block(const ModuleTree& tree, const FoundBlock& block,
               BlockBytes* bytes) {
  ++bytes->blocks;
  std::set<int64_t> seen;
  for (const size_t module : tree.subtree(block.module)) {
    for (const ModuleTensor& tensor : tree.nodes[module].tensors) {
      if (tensor.storage < 0 || !seen.insert(tensor.storage).second) continue;
      bytes->all += tensor.bytes;
      if (tensor.resident_reason.empty()) {
        bytes->streamed += tensor.bytes;
      } else {
        bytes->resident[block.path + ": " + tensor.name + " " +
                        tensor.resident_reason] += tensor.bytes;
      }
    }
  }
}

class FamiliesTest : public testing::TestWithParam<Family> {};

TEST_P(FamiliesTest, NearlyAllBytesOfBlocksAreStreamed) {
  torch::jit::Module root = torch::jit::load(GetParam().path);
  root.eval();
  auto tree = read_module_tree(root);
  ASSERT_TRUE(tree.ok()) << tree.status();
  const auto discovery = discover(tree->tree);
  ASSERT_TRUE(discovery.ok()) << discovery.status();
  const auto module = TorchscriptModule::create(*std::move(tree), *discovery);
  ASSERT_TRUE(module.ok()) << module.status();

  BlockBytes bytes;
  for (const DiscoveredComponent& component : discovery->components) {
    for (const std::vector<FoundBlock>& stack : component.stacks) {
      for (const FoundBlock& block : stack) {
        add_block((*module)->tree(), block, &bytes);
      }
    }
  }
  EXPECT_EQ(bytes.blocks, GetParam().blocks);
  const double percent = 100.0 * static_cast<double>(bytes.streamed) /
                         static_cast<double>(bytes.all);
  std::printf("%s: %.2f %% of %lld bytes of blocks may be streamed\n",
              GetParam().name, percent, static_cast<long long>(bytes.all));
  for (const auto& [what, size] : bytes.resident) {
    std::printf("  stays: %s (%lld bytes)\n", what.c_str(),
                static_cast<long long>(size));
  }
  EXPECT_GE(percent, 0.99 * GetParam().streamed_percent);
}

INSTANTIATE_TEST_SUITE_P(
    Families, FamiliesTest,
    testing::Values(
        Family{"demo", "pipelines/demo/package/pipeline.pt", 10, 100},
        Family{"pixart", "tests/families/testdata/pixart.pt", 6, 100},
        Family{"sd3", "tests/families/testdata/sd3.pt", 12, 100},
        Family{"flux", "tests/families/testdata/flux.pt", 12, 100},
        Family{"sdxl", "tests/families/testdata/sdxl.pt", 11, 100},
        Family{"qwen_image", "tests/families/testdata/qwen_image.pt", 6, 100},
        Family{"wan", "tests/families/testdata/wan.pt", 6, 100}),
    [](const testing::TestParamInfo<Family>& info) {
      return std::string(info.param.name);
    });

}  // namespace
}  // namespace ferry
