#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "offload/plan_resolver.h"
#include "offload/testing/tree_builder.h"

namespace ferry {
namespace {

// Random pipelines and configurations.
class Generator {
 public:
  explicit Generator(unsigned seed) : random_(seed) {}

  ModuleTree pipeline() {
    const std::string prefix = one_in(4) ? "pipe." : "";
    TreeBuilder builder;
    SupportsComponentDiscovery declared;
    OffloadPlan plan;
    for (const char* name : {"transformer", "dit", "model"}) {
      if (one_in(2)) continue;
      add_dit(prefix + name, &builder, &plan);
      declared.dit_modules.push_back(prefix + name);
    }
    for (const char* name : {"text_encoder", "mllm", "image_encoder"}) {
      if (one_in(2)) continue;
      add_encoder(prefix + name, &builder, &plan);
      declared.encoder_modules.push_back(prefix + name);
    }
    for (const char* name : {"vae", "audio_vae"}) {
      if (one_in(2)) continue;
      builder.parameter(prefix + name, 1 + below(99));
      stage(prefix + name, &builder, &plan);
      declared.vae_modules.push_back(prefix + name);
    }
    if (one_in(6)) declared.dit_modules.push_back("not.there");
    if (one_in(8) && !declared.encoder_modules.empty()) {
      declared.resident_modules.push_back(declared.encoder_modules.front());
    }
    if (!one_in(4)) builder.tree.declarations = declared;
    if (!one_in(4)) builder.tree.plan = plan;
    return builder.tree;
  }

  OmniDiffusionConfig config() {
    OmniDiffusionConfig config;
    config.parallel_config.data_parallel_size = 1 + below(3);
    if (one_in(2)) {
      config.enable_cpu_offload = one_in(2);
      config.enable_layerwise_offload = one_in(2);
      config.enable_distributed_layerwise_offload = one_in(2);
      config.dlo_use_allgather = one_in(2);
      if (!config.dlo_use_allgather) config.dlo_resident_layers = below(5);
      return config;
    }
    DiffusionOffloadConfig& compact = config.diffusion_offload_config.emplace();
    compact.mode = one_in(4) ? "module" : "layer";
    compact.components.emplace();
    for (const char* name : {"dit", "text_encoder", "vae"}) {
      if (one_in(2)) continue;
      compact.components->push_back(name);
      if (compact.mode == "module" || one_in(2)) continue;
      LayerOffloadOptions options;
      options.component = name;
      if (one_in(2)) {
        options.weight_transfer = "allgather";
      } else if (options.component == "dit") {
        options.resident_layers = below(5);
      }
      compact.layer_options.push_back(options);
    }
    return config;
  }

 private:
  bool one_in(int n) { return below(n) == 0; }
  int below(int n) {
    return static_cast<int>(random_() % static_cast<unsigned>(n));
  }

  void stage(const std::string& path, TreeBuilder* builder, OffloadPlan* plan) {
    if (one_in(2)) plan->on_demand_component_paths.insert(path);
    builder->module(path).on_demand_lifecycle = !one_in(5);
  }

  void add_dit(const std::string& path, TreeBuilder* builder,
               OffloadPlan* plan) {
    builder->parameter(path, 1 + below(99));
    std::vector<std::string> containers;
    for (const char* name : {"blocks", "layers"}) {
      if (one_in(3)) continue;
      const std::string list = absl::StrCat(path, ".", name);
      if (!lists_.empty() && one_in(10)) {
        builder->alias(list, lists_.front());
      } else {
        builder->blocks(list, below(5), 1 + below(99));
        lists_.push_back(list);
      }
      containers.push_back(name);
    }
    if (one_in(12)) containers.push_back("nowhere");
    if (one_in(2)) {
      plan->block_attrs[path] = containers;
    } else if (!one_in(4)) {
      builder->module(path).blocks_attrs = containers;
    }
    if (one_in(2)) plan->resident_dit_paths.insert(path);
    if (one_in(3)) {
      const std::string child = absl::StrCat(path, ".context");
      builder->blocks(child + ".layers", below(4), 1 + below(99));
      builder->module(child).on_demand_lifecycle = one_in(2);
      plan->offload_submodules["context"] = "layers";
    }
  }

  void add_encoder(const std::string& path, TreeBuilder* builder,
                   OffloadPlan* plan) {
    builder->blocks(path + ".layers", below(4), 1 + below(99));
    if (!one_in(3)) plan->encoder_block_attrs[path] = {"layers"};
    if (one_in(3)) plan->encoder_component_types[path] = "text_encoder";
    if (one_in(2)) plan->encoder_dlo_weight_replication.insert(path);
    stage(path, builder, plan);
  }

  std::mt19937 random_;
  std::vector<std::string> lists_;
};

// Notes every block of a component and its children; none is there twice.
void check_stacks(const PlannedComponent& component, bool streams,
                  std::set<size_t>* blocks) {
  if (!streams || !component.selected) {
    EXPECT_TRUE(component.stacks.empty());
    EXPECT_TRUE(component.children.empty());
  }
  for (const PlannedStack& stack : component.stacks) {
    const auto count = static_cast<int64_t>(stack.blocks.size());
    EXPECT_GE(count, 1);
    EXPECT_NE(count - stack.resident_blocks(), 1);
    for (const PlannedBlock& block : stack.blocks) {
      EXPECT_TRUE(blocks->insert(block.module).second) << block.path;
    }
  }
  for (const PlannedComponent& child : component.children) {
    EXPECT_FALSE(child.on_demand && !child.stacks.empty());
    check_stacks(child, streams, blocks);
  }
}

int64_t owned_bytes(const PlannedComponent& component) {
  int64_t bytes = component.bytes;
  for (const PlannedStack& stack : component.stacks) {
    for (const PlannedBlock& block : stack.blocks) bytes += block.bytes;
  }
  for (const PlannedComponent& child : component.children) {
    bytes += owned_bytes(child);
  }
  return bytes;
}

void check_plan(const ModuleTree& tree, const OffloadConfig& config,
                const ResolvedPlan& plan) {
  std::set<size_t> blocks;
  std::map<ComponentRole, int> selected;
  ComponentRole last = ComponentRole::kDit;
  int64_t bytes = 0;
  for (const PlannedComponent& component : plan.components) {
    EXPECT_LE(last, component.role);
    last = component.role;
    selected[component.role] += component.selected ? 1 : 0;
    check_stacks(component, config.offload_streams_blocks(), &blocks);
    if (component.on_demand) {
      EXPECT_TRUE(config.offload_streams_blocks());
      EXPECT_TRUE(tree.nodes[component.module].on_demand_lifecycle);
    }
    bytes += owned_bytes(component);
  }
  if (config.is_explicit()) {
    const auto expect_selected = [&](OffloadComponent kind,
                                     ComponentRole role) {
      EXPECT_EQ(selected[role] > 0, config.selects(kind)) << to_string(kind);
    };
    expect_selected(OffloadComponent::kTextEncoder,
                    ComponentRole::kTextEncoder);
    expect_selected(OffloadComponent::kVae, ComponentRole::kVae);
  }
  for (const StoragePlacement& placement : plan.storages) {
    if (placement.owner == StoragePlacement::Owner::kResident) {
      bytes += placement.bytes;
      EXPECT_NE(placement.reason, "");
    }
  }
  EXPECT_EQ(bytes, tree.storage_bytes(0));
}

TEST(PlanResolverProperty, EveryPlanOfRandomPipelinesIsSound) {
  int resolved = 0;
  int refused = 0;
  for (unsigned seed = 0; seed < 4000; ++seed) {
    SCOPED_TRACE(seed);
    Generator generator(seed);
    const ModuleTree tree = generator.pipeline();
    const auto config = OffloadConfig::from_od_config(generator.config());
    if (!config.ok()) continue;
    const auto plan = resolve_offload_plan(tree, *config);
    if (!plan.ok()) {
      EXPECT_EQ(plan.status().code(), absl::StatusCode::kInvalidArgument);
      EXPECT_NE(plan.status().message(), "");
      ++refused;
      continue;
    }
    ++resolved;
    check_plan(tree, *config, *plan);
    if (testing::Test::HasFailure()) return;
  }
  // Neither is a rarity.
  EXPECT_GT(resolved, 1000);
  EXPECT_GT(refused, 500);
}

}  // namespace
}  // namespace ferry
