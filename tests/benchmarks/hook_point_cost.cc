#include "tests/benchmarks/hook_point_cost.h"

#include <ATen/ops/zeros.h>
#include <torch/csrc/jit/api/module.h>

#include <algorithm>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "offload/hook_registry.h"
#include "pipelines/torchscript/hook_points.h"
#include "pipelines/torchscript/torch_settings.h"
#include "platform/base/clock.h"
#include "tests/benchmarks/measurement.h"

namespace ferry {
namespace {

constexpr int kBlocks = 50;
constexpr int kCalls = 200;
constexpr int kRounds = 101;

// Calls its blocks, which do nothing.
class Chain {
 public:
  explicit Chain(bool has_hook_points) : root_("Root") {
    std::string source = "def forward(self, x):\n";
    std::vector<HookTarget> targets;
    for (int b = 0; b < kBlocks; ++b) {
      const std::string name = absl::StrCat("block_", b);
      torch::jit::Module block(absl::StrCat("Block", b));
      block.define("def forward(self, x):\n    return x\n");
      root_.register_module(name, block);
      absl::StrAppend(&source, "    x = self.", name, ".forward(x)\n");
      registries_.push_back(std::make_unique<HookRegistry>(name));
      targets.push_back({name, block, registries_.back().get()});
    }
    root_.define(absl::StrCat(source, "    return x\n"));
    if (!has_hook_points) return;
    auto points = HookPoints::insert(targets);
    require(points.ok(), points.status().message());
    points_ = *std::move(points);
  }

  // Nanoseconds for each block.
  double measure() {
    const at::Tensor x = at::zeros({1});
    const absl::Duration start = Clock::real().monotonic();
    for (int call = 0; call < kCalls; ++call) root_.forward({x});
    return absl::ToDoubleNanoseconds(Clock::real().monotonic() - start) /
           (kCalls * kBlocks);
  }

 private:
  torch::jit::Module root_;
  std::vector<std::unique_ptr<HookRegistry>> registries_;
  std::unique_ptr<HookPoints> points_;
};

}  // namespace

void measure_hook_point() {
  set_deterministic_mode();
  const TorchScope scope(/*intra_op_threads=*/1);
  Chain plain(false);
  Chain instrumented(true);
  std::vector<double> costs;
  for (int round = 0; round < kRounds; ++round) {
    const double without = plain.measure();
    const double with = instrumented.measure();
    // The first ones compile.
    if (round > 0) costs.push_back((with - without) / 2);
  }
  std::sort(costs.begin(), costs.end());
  std::cerr << absl::StrFormat("10 %% below %.1f ns, 90 %% below %.1f ns\n",
                               costs[costs.size() / 10],
                               costs[costs.size() * 9 / 10]);
  report("hook_point_ns", median(costs), "ns",
         "without hooks, of two for each block; at most 200");
}

}  // namespace ferry
