#include "offload/offload_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_split.h"

namespace ferry {
namespace {

using Component = OffloadComponent;
using Strategy = OffloadStrategy;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;
using testing::StartsWith;

constexpr Component kDit = Component::kDit;
constexpr Component kTextEncoder = Component::kTextEncoder;
constexpr Component kVae = Component::kVae;

// The compact form with these components.
OmniDiffusionConfig compact(const std::string& mode,
                            const std::vector<std::string>& components) {
  OmniDiffusionConfig config;
  config.diffusion_offload_config.emplace();
  config.diffusion_offload_config->mode = mode;
  config.diffusion_offload_config->components = components;
  return config;
}

OmniDiffusionConfig layer_with(LayerOffloadOptions options) {
  OmniDiffusionConfig config = compact("layer", {"dit", "text_encoder", "vae"});
  config.diffusion_offload_config->layer_options = {std::move(options)};
  return config;
}

OmniDiffusionConfig gathered(const std::string& component) {
  return layer_with({component, "allgather", {}});
}

OffloadConfig resolve(const OmniDiffusionConfig& config) {
  auto resolved = OffloadConfig::from_od_config(config);
  EXPECT_TRUE(resolved.ok()) << resolved.status();
  return resolved.value_or(OffloadConfig());
}

// Each violation; none when the configuration is accepted.
std::vector<std::string> violations(const OmniDiffusionConfig& config) {
  const auto resolved = OffloadConfig::from_od_config(config);
  if (resolved.ok()) return {};
  EXPECT_EQ(resolved.status().code(), absl::StatusCode::kInvalidArgument);
  return absl::StrSplit(std::string(resolved.status().message()), "; ");
}

std::string message(const OmniDiffusionConfig& config) {
  return std::string(OffloadConfig::from_od_config(config).status().message());
}

TEST(OffloadConfig, NothingAskedForIsNone) {
  const OffloadConfig config = resolve({});
  EXPECT_EQ(config.strategy(), Strategy::kNone);
  EXPECT_FALSE(config.is_automatic());
  EXPECT_FALSE(config.offload_enabled());
  EXPECT_EQ(config.group_size(), 1);
}

TEST(OffloadConfig, AutoIsChosenLater) {
  OmniDiffusionConfig od;
  od.diffusion_offload_config.emplace().mode = "auto";
  od.diffusion_offload_config->headroom_bytes = 7;
  od.diffusion_offload_config->pin_memory = false;
  const OffloadConfig config = resolve(od);
  EXPECT_TRUE(config.is_automatic());
  EXPECT_EQ(config.strategy(), Strategy::kNone);
  EXPECT_EQ(config.headroom_bytes(), 7);
  const OffloadConfig chosen = config.with_strategy(Strategy::kLayerWise);
  EXPECT_FALSE(chosen.is_automatic());
  EXPECT_EQ(chosen.strategy(), Strategy::kLayerWise);
  EXPECT_EQ(chosen.headroom_bytes(), 7);
  EXPECT_FALSE(chosen.pin_memory());
  EXPECT_FALSE(chosen.is_explicit());
}

TEST(OffloadConfig, ModuleModeIsModelLevel) {
  const OffloadConfig config =
      resolve(compact("module", {"dit", "text_encoder"}));
  EXPECT_EQ(config.strategy(), Strategy::kModelLevel);
  EXPECT_TRUE(config.is_explicit());
  EXPECT_TRUE(config.selects(kTextEncoder));
  EXPECT_FALSE(config.selects(kVae));
  EXPECT_FALSE(config.should_offload_component(kDit));
  EXPECT_FALSE(config.offload_streams_blocks());
}

TEST(OffloadConfig, LayerModeIsLayerWiseAndRankLocal) {
  const OffloadConfig config =
      resolve(compact("layer", {"text_encoder", "dit", "vae"}));
  EXPECT_EQ(config.strategy(), Strategy::kLayerWise);
  EXPECT_THAT(config.components(), ElementsAre(kDit, kTextEncoder, kVae));
  EXPECT_EQ(config.weight_transfer(kDit), WeightTransfer::kRankLocal);
  EXPECT_TRUE(config.should_offload_component(kTextEncoder));
  EXPECT_FALSE(config.any_allgather());
}

TEST(OffloadConfig, ExplicitRankLocalIsLayerWise) {
  EXPECT_EQ(resolve(layer_with({"dit", "rank-local", 0})).strategy(),
            Strategy::kLayerWise);
}

TEST(OffloadConfig, GatheringIsDistributedForThatComponentOnly) {
  const OffloadConfig config = resolve(gathered("text_encoder"));
  EXPECT_EQ(config.strategy(), Strategy::kDistributedLayerWise);
  EXPECT_TRUE(config.uses_allgather(kTextEncoder));
  EXPECT_FALSE(config.uses_allgather(kDit));
  EXPECT_TRUE(config.any_allgather());
}

TEST(OffloadConfig, ResidentLayersAreDistributedAndRankLocal) {
  const OffloadConfig config = resolve(layer_with({"dit", {}, 20}));
  EXPECT_EQ(config.strategy(), Strategy::kDistributedLayerWise);
  EXPECT_EQ(config.resident_layers(), 20);
  EXPECT_FALSE(config.any_allgather());
}

TEST(OffloadConfig, AMemoryBudgetIsDistributed) {
  OmniDiffusionConfig od = compact("layer", {"dit"});
  od.diffusion_offload_config->memory_budget_bytes = 1 << 20;
  const OffloadConfig config = resolve(od);
  EXPECT_EQ(config.strategy(), Strategy::kDistributedLayerWise);
  EXPECT_EQ(config.memory_budget_bytes(), 1 << 20);
  EXPECT_EQ(config.resident_layers(), 0);
}

TEST(OffloadConfig, ComponentNamedTwiceCountsOnce) {
  EXPECT_THAT(resolve(compact("layer", {"dit", "dit"})).components(),
              ElementsAre(kDit));
}

TEST(OffloadConfig, CompactPinMemoryWinsOverTheGlobalOne) {
  OmniDiffusionConfig od = compact("layer", {"dit"});
  EXPECT_TRUE(resolve(od).pin_memory());
  od.pin_cpu_memory = false;
  EXPECT_FALSE(resolve(od).pin_memory());
  od.diffusion_offload_config->pin_memory = true;
  EXPECT_TRUE(resolve(od).pin_memory());
}

struct Refusal {
  const char* what;
  std::function<void(OmniDiffusionConfig&)> change;
  std::vector<const char*> message;
};

// The compact form, otherwise right, with one field wrong.
const std::vector<Refusal>& field_refusals() {
  const auto options = [](LayerOffloadOptions entry) {
    return [entry](OmniDiffusionConfig& od) {
      od.diffusion_offload_config->layer_options.push_back(entry);
    };
  };
  static const auto* const kRefusals = new std::vector<Refusal>{
      {"no mode",
       [](auto& od) { od.diffusion_offload_config->mode.reset(); },
       {".mode: is required; allowed are \"auto\""}},
      {"empty mode",
       [](auto& od) { od.diffusion_offload_config->mode = ""; },
       {".mode: \"\" is unknown", "\"module\", \"layer\""}},
      {"other spelling of a mode",
       [](auto& od) { od.diffusion_offload_config->mode = "Layer\n"; },
       {".mode: \"Layer\\n\" is unknown"}},
      {"no components",
       [](auto& od) { od.diffusion_offload_config->components.reset(); },
       {".components: must name", "\"dit\", \"text_encoder\", \"vae\""}},
      {"empty components",
       [](auto& od) { od.diffusion_offload_config->components->clear(); },
       {".components: must name"}},
      {"unknown component",
       [](auto& od) {
         od.diffusion_offload_config->components->push_back(" dit ");
       },
       {".components: \" dit \" is unknown", "\"dit\""}},
      {"options of an unselected component",
       options({"vae", {}, {}}),
       {".layer_options: \"vae\" is not one of the selected"}},
      {"options of an unknown component",
       options({"unet", {}, {}}),
       {".layer_options: \"unet\" is not one of the selected"}},
      {"unknown transfer",
       options({"dit", "rank_local", {}}),
       {".layer_options.dit.weight_transfer: \"rank_local\" is unknown",
        "\"rank-local\", \"allgather\""}},
      {"negative resident layers",
       options({"dit", {}, -1}),
       {".layer_options.dit.resident_layers: must be 0 or more, got -1"}},
      {"resident layers of an encoder",
       options({"text_encoder", {}, 1}),
       {".layer_options.text_encoder.resident_layers: must be 0"}},
      {"resident layers of a gathered DiT",
       options({"dit", "allgather", 2}),
       {".resident_layers: needs weight_transfer \"rank-local\""}},
  };
  return *kRefusals;
}

// Fields that are right, but not together.
const std::vector<Refusal>& combination_refusals() {
  static const auto* const kRefusals = new std::vector<Refusal>{
      {"layer options in module mode",
       [](auto& od) {
         od.diffusion_offload_config->mode = "module";
         od.diffusion_offload_config->layer_options.push_back({"dit", {}, {}});
       },
       {".layer_options: needs mode \"layer\", got \"module\""}},
      {"options twice",
       [](auto& od) {
         auto& entries = od.diffusion_offload_config->layer_options;
         entries.assign(2, {"dit", {}, {}});
       },
       {".layer_options: \"dit\" is there twice"}},
      {"a budget in module mode",
       [](auto& od) {
         od.diffusion_offload_config->mode = "module";
         od.diffusion_offload_config->memory_budget_bytes = 1;
       },
       {".memory_budget_bytes: needs mode \"layer\""}},
      {"a budget of nothing",
       [](auto& od) { od.diffusion_offload_config->memory_budget_bytes = 0; },
       {".memory_budget_bytes: must be 1 to 1152921504606846976, got 0"}},
      {"huge budget",
       [](auto& od) {
         od.diffusion_offload_config->memory_budget_bytes =
             kMaxConfiguredBytes + 1;
       },
       {".memory_budget_bytes: must be 1 to 1152921504606846976, got "
        "1152921504606846977"}},
      {"a budget with resident layers",
       [](auto& od) {
         od.diffusion_offload_config->memory_budget_bytes = 1;
         od.diffusion_offload_config->layer_options.push_back({"dit", {}, 0});
       },
       {".memory_budget_bytes: excludes", "resident_layers"}},
      {"a budget with gathering",
       [](auto& od) {
         od.diffusion_offload_config->memory_budget_bytes = 1;
         od.diffusion_offload_config->layer_options.push_back(
             {"dit", "allgather", {}});
       },
       {".memory_budget_bytes: excludes weight_transfer"}},
      {"a budget without DiT",
       [](auto& od) {
         od.diffusion_offload_config->memory_budget_bytes = 1;
         od.diffusion_offload_config->components = {"text_encoder"};
       },
       {".memory_budget_bytes: needs the component \"dit\""}},
      {"negative headroom",
       [](auto& od) { od.diffusion_offload_config->headroom_bytes = -1; },
       {".headroom_bytes: must be 0 to 1152921504606846976, got -1"}},
      {"huge headroom",
       [](auto& od) {
         od.diffusion_offload_config->headroom_bytes =
             std::numeric_limits<int64_t>::max();
       },
       {".headroom_bytes: must be 0 to 1152921504606846976, got "
        "9223372036854775807"}},
      {"huge headroom of an automatic policy",
       [](auto& od) {
         od = {};
         od.diffusion_offload_config.emplace().mode = "auto";
         od.diffusion_offload_config->headroom_bytes = kMaxConfiguredBytes + 1;
       },
       {".headroom_bytes: must be 0 to 1152921504606846976, got "
        "1152921504606846977"}},
      {"auto with components",
       [](auto& od) { od.diffusion_offload_config->mode = "auto"; },
       {".components: needs mode \"module\" or \"layer\", got \"auto\""}},
      {"Host Weight Runtime",
       [](auto& od) { od.host_weight_runtime_mode = "preferred"; },
       {"host_weight_runtime_mode: \"preferred\"", "\"disabled\""}},
      {"legacy transfer",
       [](auto& od) { od.dlo_use_allgather = false; },
       {"dlo_use_allgather: cannot be combined with"}},
      {"legacy residency",
       [](auto& od) { od.dlo_resident_layers = 1; },
       {"dlo_resident_layers: cannot be combined with"}},
      {"legacy registration limit",
       [](auto& od) { od.dlo_host_registration_limit_gib = 4; },
       {"dlo_host_registration_limit_gib: must be 0"}},
      {"legacy flag of another strategy",
       [](auto& od) { od.enable_cpu_offload = true; },
       {"enable_*_offload: asks for model_level, but",
        "for layer_wise; leave the flag out"}},
  };
  return *kRefusals;
}

TEST(OffloadConfig, RefusesEachMistakeOfTheCompactFormAndNamesTheField) {
  for (const auto* refusals : {&field_refusals(), &combination_refusals()}) {
    for (const Refusal& refusal : *refusals) {
      OmniDiffusionConfig od = compact("layer", {"dit", "text_encoder"});
      ASSERT_THAT(violations(od), SizeIs(0));
      refusal.change(od);
      const std::string text = message(od);
      EXPECT_NE(text, "") << refusal.what;
      for (const char* part : refusal.message) {
        EXPECT_THAT(text, HasSubstr(part)) << refusal.what;
      }
      EXPECT_EQ(text.find('\n'), std::string::npos) << refusal.what;
    }
  }
}

TEST(OffloadConfig, TellsEveryMistakeAtOnce) {
  OmniDiffusionConfig od = compact("layers", {"dit", "unet"});
  od.diffusion_offload_config->layer_options = {{"dit", "AllGather", -1}};
  od.dlo_resident_layers = -1;
  od.parallel_config.tensor_parallel_size = 0;
  const std::string text = message(od);
  for (const char* part :
       {".mode: ", ".components: ", ".weight_transfer: ", ".resident_layers: ",
        "dlo_resident_layers: ", "parallel_config.tensor_parallel_size: "}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
}

TEST(OffloadConfig, NamesFieldsAsTheCallerDoes) {
  const auto resolved =
      OffloadConfig::from_od_config(compact("x", {"dit"}), "offload");
  EXPECT_THAT(std::string(resolved.status().message()),
              StartsWith("offload.mode: "));
}

TEST(OffloadConfig, AHugeValueMakesNoHugeMessage) {
  const std::string huge(1 << 20, 'x');
  EXPECT_LT(message(compact(huge, {huge})).size(), 512u);
}

TEST(OffloadConfig, AVaeIsNeverGathered) {
  EXPECT_THAT(message(gathered("vae")),
              HasSubstr("layer_options.vae.weight_transfer: must be "));
}

TEST(OffloadConfig, HighestLegacyFlagWins) {
  OmniDiffusionConfig od;
  od.enable_cpu_offload = true;
  EXPECT_EQ(resolve(od).strategy(), Strategy::kModelLevel);
  EXPECT_THAT(resolve(od).notes(), SizeIs(0));
  od.enable_layerwise_offload = true;
  EXPECT_EQ(resolve(od).strategy(), Strategy::kLayerWise);
  od.enable_distributed_layerwise_offload = true;
  EXPECT_EQ(resolve(od).strategy(), Strategy::kDistributedLayerWise);
  EXPECT_THAT(resolve(od).notes(), SizeIs(1));
}

TEST(OffloadConfig, LegacyResidentLayersInVainAreNoted) {
  OmniDiffusionConfig od;
  od.dlo_use_allgather = false;
  od.dlo_resident_layers = 1;
  EXPECT_THAT(resolve(od).notes(),
              ElementsAre(HasSubstr("dlo_resident_layers has no effect")));
  od.enable_layerwise_offload = true;
  EXPECT_THAT(resolve(od).notes(), SizeIs(1));
  od.enable_layerwise_offload = false;
  od.enable_distributed_layerwise_offload = true;
  EXPECT_THAT(resolve(od).notes(), SizeIs(0));
}

TEST(OffloadConfig, LegacySelectsTheDitAndLeavesTheRestToTheModel) {
  OmniDiffusionConfig od;
  od.enable_layerwise_offload = true;
  const OffloadConfig config = resolve(od);
  EXPECT_FALSE(config.is_explicit());
  EXPECT_TRUE(config.should_offload_component(kDit));
  EXPECT_FALSE(config.should_offload_component(kTextEncoder));
}

TEST(OffloadConfig, LegacyGathersTheDitOnly) {
  OmniDiffusionConfig od;
  od.enable_distributed_layerwise_offload = true;
  EXPECT_TRUE(resolve(od).uses_allgather(kDit));
  EXPECT_FALSE(resolve(od).uses_allgather(kTextEncoder));
  od.dlo_use_allgather = false;
  od.dlo_resident_layers = 3;
  EXPECT_FALSE(resolve(od).any_allgather());
  EXPECT_EQ(resolve(od).resident_layers(), 3);
}

TEST(OffloadConfig, LegacyResidencyExcludesGathering) {
  OmniDiffusionConfig od;
  od.enable_distributed_layerwise_offload = true;
  od.dlo_resident_layers = 3;
  EXPECT_THAT(message(od), HasSubstr("dlo_resident_layers: needs "));
}

TEST(OffloadConfig, AMatchingLegacyFlagIsAccepted) {
  OmniDiffusionConfig od = compact("layer", {"dit"});
  od.enable_layerwise_offload = true;
  EXPECT_EQ(resolve(od).strategy(), Strategy::kLayerWise);
  od = gathered("dit");
  od.enable_distributed_layerwise_offload = true;
  EXPECT_EQ(resolve(od).strategy(), Strategy::kDistributedLayerWise);
}

TEST(OffloadConfig, DerivesTheGroupFromTheParallelConfig) {
  struct Case {
    int64_t data, sequence, tensor, group;
  };
  for (const Case& c : {Case{1, 1, 1, 1}, Case{2, 1, 1, 2}, Case{1, 4, 1, 4},
                        Case{2, 2, 2, 2}, Case{1, 1, 8, 1}}) {
    OmniDiffusionConfig od = gathered("dit");
    od.parallel_config.data_parallel_size = c.data;
    od.parallel_config.sequence_parallel_size = c.sequence;
    od.parallel_config.tensor_parallel_size = c.tensor;
    EXPECT_EQ(resolve(od).group_size(), c.group);
    EXPECT_EQ(resolve(od).effective_group_size(), c.group);
    od.diffusion_offload_config->layer_options.clear();
    EXPECT_EQ(resolve(od).group_size(), c.group);
    EXPECT_EQ(resolve(od).effective_group_size(), 1);
  }
}

TEST(OffloadConfig, DerivesTheGroupFromHsdp) {
  OmniDiffusionConfig od = compact("layer", {"dit"});
  od.parallel_config.use_hsdp = true;
  od.parallel_config.data_parallel_size = 2;
  EXPECT_EQ(resolve(od).group_size(), 2);
  od.parallel_config.hsdp_shard_size = 4;
  od.parallel_config.hsdp_replicate_size = 3;
  EXPECT_TRUE(resolve(od).use_hsdp());
  EXPECT_EQ(resolve(od).group_size(), 12);
  od.parallel_config.hsdp_shard_size = 1;
  od.parallel_config.hsdp_replicate_size = 1;
  od.parallel_config.sequence_parallel_size = 4;
  EXPECT_EQ(resolve(od).group_size(), 4);
}

TEST(OffloadConfig, RefusesHsdpWithGatheringOnly) {
  OmniDiffusionConfig od = gathered("dit");
  od.parallel_config.use_hsdp = true;
  EXPECT_THAT(message(od), HasSubstr("parallel_config.use_hsdp: "));
  od.diffusion_offload_config->layer_options[0].weight_transfer.reset();
  EXPECT_THAT(violations(od), SizeIs(0));
}

TEST(OffloadConfig, RefusesSizesOutOfRange) {
  OmniDiffusionConfig od;
  od.parallel_config.data_parallel_size = 0;
  od.parallel_config.sequence_parallel_size = -1;
  od.parallel_config.cfg_parallel_size = std::numeric_limits<int64_t>::max();
  od.parallel_config.hsdp_shard_size = std::numeric_limits<int64_t>::max();
  od.parallel_config.hsdp_replicate_size = std::numeric_limits<int64_t>::max();
  od.parallel_config.use_hsdp = true;
  EXPECT_THAT(violations(od), SizeIs(5));
}

TEST(OffloadConfig, ACacheCannotSkipCollectivesOfDataParallelRanks) {
  OmniDiffusionConfig od = gathered("dit");
  od.parallel_config.data_parallel_size = 2;
  od.cache_backend = "tea_cache";
  EXPECT_THAT(message(od), HasSubstr("cache_backend: \"tea_cache\""));
  od.cache_backend = "none";
  EXPECT_THAT(violations(od), SizeIs(0));
  od.cache_backend = "tea_cache";
  od.parallel_config.data_parallel_size = 1;
  EXPECT_THAT(violations(od), SizeIs(0));
}

TEST(OffloadConfig, APromptCacheCannotSkipCollectivesOfDataParallelRanks) {
  OmniDiffusionConfig od = gathered("text_encoder");
  od.parallel_config.data_parallel_size = 2;
  od.enable_prompt_embed_cache = true;
  EXPECT_THAT(message(od), HasSubstr("enable_prompt_embed_cache: "));
  EXPECT_THAT(violations(gathered("dit")), SizeIs(0));
}

TEST(OffloadConfig, DescribesWhatWasDecided) {
  OmniDiffusionConfig od = layer_with({"dit", {}, 2});
  EXPECT_EQ(resolve(od).describe(),
            "strategy distributed_layer_wise, components dit rank-local + "
            "text_encoder rank-local + vae rank-local, resident_layers 2, "
            "pin_memory true, group_size 1, effective_group_size 1");
}

}  // namespace
}  // namespace ferry
