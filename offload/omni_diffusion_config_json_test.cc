#include "offload/omni_diffusion_config_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "offload/offload_config.h"

namespace ferry {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string message(const std::string& json) {
  const auto config = parse_omni_diffusion_config(json);
  if (config.ok()) return "";
  EXPECT_EQ(config.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(config.status().message());
}

TEST(OmniDiffusionConfigJson, ReadsEveryField) {
  const auto config = parse_omni_diffusion_config(R"({
    "diffusion_offload_config": {
      "mode": "layer", "components": ["dit", "vae"], "pin_memory": false,
      "memory_budget_bytes": 4000000000, "headroom_bytes": 5,
      "layer_options": {
        "dit": {"weight_transfer": "allgather", "resident_layers": 2}}},
    "enable_cpu_offload": true, "enable_layerwise_offload": true,
    "enable_distributed_layerwise_offload": true, "dlo_use_allgather": false,
    "dlo_resident_layers": 3, "dlo_host_registration_limit_gib": 1,
    "pin_cpu_memory": false, "host_weight_runtime_mode": "required",
    "parallel_config": {
      "data_parallel_size": 2, "sequence_parallel_size": 3,
      "tensor_parallel_size": 4, "cfg_parallel_size": 5, "use_hsdp": true,
      "hsdp_shard_size": 6, "hsdp_replicate_size": 7},
    "cache_backend": "tea_cache", "enable_prompt_embed_cache": true})");
  ASSERT_TRUE(config.ok()) << config.status();
  const DiffusionOffloadConfig& compact = *config->diffusion_offload_config;
  EXPECT_EQ(compact.mode, "layer");
  EXPECT_THAT(*compact.components, ElementsAre("dit", "vae"));
  EXPECT_EQ(compact.pin_memory, false);
  EXPECT_EQ(compact.memory_budget_bytes, 4000000000);
  EXPECT_EQ(compact.headroom_bytes, 5);
  ASSERT_EQ(compact.layer_options.size(), 1u);
  EXPECT_EQ(compact.layer_options[0].component, "dit");
  EXPECT_EQ(compact.layer_options[0].weight_transfer, "allgather");
  EXPECT_EQ(compact.layer_options[0].resident_layers, 2);
  EXPECT_TRUE(config->enable_cpu_offload);
  EXPECT_TRUE(config->enable_layerwise_offload);
  EXPECT_TRUE(config->enable_distributed_layerwise_offload);
  EXPECT_FALSE(config->dlo_use_allgather);
  EXPECT_EQ(config->dlo_resident_layers, 3);
  EXPECT_EQ(config->dlo_host_registration_limit_gib, 1.0);
  EXPECT_FALSE(config->pin_cpu_memory);
  EXPECT_EQ(config->host_weight_runtime_mode, "required");
  const DiffusionParallelConfig& parallel = config->parallel_config;
  EXPECT_EQ(parallel.data_parallel_size, 2);
  EXPECT_EQ(parallel.sequence_parallel_size, 3);
  EXPECT_EQ(parallel.tensor_parallel_size, 4);
  EXPECT_EQ(parallel.cfg_parallel_size, 5);
  EXPECT_TRUE(parallel.use_hsdp);
  EXPECT_EQ(parallel.hsdp_shard_size, 6);
  EXPECT_EQ(parallel.hsdp_replicate_size, 7);
  EXPECT_EQ(config->cache_backend, "tea_cache");
  EXPECT_TRUE(config->enable_prompt_embed_cache);
}

TEST(OmniDiffusionConfigJson, NullIsUnsetWhereTheOriginalSaysSo) {
  const auto config = parse_omni_diffusion_config(
      R"({"diffusion_offload_config": null, "parallel_config": null,
          "cache_backend": null})");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_FALSE(config->diffusion_offload_config.has_value());
  EXPECT_EQ(message(R"({"diffusion_offload_config": {"pin_memory": null}})"),
            "");
}

TEST(OmniDiffusionConfigJson, NamesValuesOfAnotherType) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"[]", "must be an object, got a array"},
      {R"({"diffusion_offload_config": "layer"})",
       "diffusion_offload_config: must be an object, got a string"},
      {R"({"diffusion_offload_config": {"mode": 1}})",
       "diffusion_offload_config.mode: must be a string, got a number"},
      {R"({"diffusion_offload_config": {"mode": null}})",
       "diffusion_offload_config.mode: must be a string, got a null"},
      {R"({"diffusion_offload_config": {"components": "dit"}})",
       "components: must be a list of strings, got a string"},
      {R"({"diffusion_offload_config": {"components": {"dit": {}}}})",
       "components: must be a list of strings, got a object"},
      {R"({"diffusion_offload_config": {"components": ["dit", 1]}})",
       "components: must be a list of strings"},
      {R"({"diffusion_offload_config": {"pin_memory": 0}})",
       "pin_memory: must be true or false, got a number"},
      {R"({"diffusion_offload_config": {"layer_options": null}})",
       "layer_options: must be an object, got a null"},
      {R"({"diffusion_offload_config": {"layer_options": {"dit": []}}})",
       "layer_options.dit: must be an object, got a array"},
      {R"({"dlo_resident_layers": true})",
       "dlo_resident_layers: must be an integer of 64 bits, got a boolean"},
      {R"({"dlo_resident_layers": 2.0})", "dlo_resident_layers: must be"},
      {R"({"dlo_resident_layers": "2"})", "dlo_resident_layers: must be"},
      {R"({"dlo_resident_layers": 18446744073709551615})",
       "dlo_resident_layers: must be an integer of 64 bits"},
      {R"({"enable_cpu_offload": 1})",
       "enable_cpu_offload: must be true or false"},
      {R"({"parallel_config": {"use_hsdp": "true"}})",
       "parallel_config.use_hsdp: must be true or false"},
  };
  for (const auto& [json, part] : cases) {
    EXPECT_THAT(message(json), HasSubstr(part)) << json;
  }
}

TEST(OmniDiffusionConfigJson, NamesUnknownKeysAndThoseAllowed) {
  EXPECT_THAT(message(R"({"offload": {}})"),
              HasSubstr("offload: is unknown; allowed are "
                        "diffusion_offload_config, enable_cpu_offload"));
  EXPECT_THAT(message(R"({"diffusion_offload_config": {"Mode": "layer"}})"),
              HasSubstr("diffusion_offload_config.Mode: is unknown; allowed "
                        "are mode, components, layer_options"));
  EXPECT_THAT(message(R"({"diffusion_offload_config":
                      {"layer_options": {"dit": {"weight-transfer": 1}}}})"),
              HasSubstr("layer_options.dit.weight-transfer: is unknown; "
                        "allowed are weight_transfer, resident_layers"));
}

TEST(OmniDiffusionConfigJson, NamesAKeyThatIsThereTwice) {
  EXPECT_EQ(message(R"({"parallel_config": {"use_hsdp": true},
                        "diffusion_offload_config": {"mode": "layer",
                          "mode": "layer"}})"),
            "mode: is there twice in one object");
}

TEST(OmniDiffusionConfigJson, TellsEveryMistakeAtOnce) {
  const std::string text = message(
      R"({"dlo_resident_layers": "2", "x": 1,
          "diffusion_offload_config": {"mode": 1, "components": 2}})");
  for (const char* part :
       {"dlo_resident_layers: ", "x: ", ".mode: ", ".components: "}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
}

// Bytes of a good configuration changed, dropped and doubled at random.
TEST(OmniDiffusionConfigJson, AnyTextIsAnErrorOrAConfigurationAndNoCrash) {
  const std::string good =
      R"({"diffusion_offload_config": {"mode": "layer", "components": ["dit"],
          "layer_options": {"dit": {"resident_layers": 2}}},
          "parallel_config": {"data_parallel_size": 2, "use_hsdp": true},
          "dlo_host_registration_limit_gib": 0.5, "cache_backend": null})";
  std::mt19937 random(1);
  int accepted = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string text = good;
    for (unsigned changes = 1 + random() % 3; changes > 0; --changes) {
      const size_t at = random() % text.size();
      switch (random() % 3) {
        case 0:
          text[at] = static_cast<char>(random());
          break;
        case 1:
          text.erase(at, 1 + random() % 8);
          break;
        default:
          text.insert(at, text.substr(random() % text.size(), 12));
      }
      if (text.empty()) text = "x";
    }
    const auto config = parse_omni_diffusion_config(text);
    if (!config.ok()) {
      EXPECT_LT(config.status().message().size(), 4096u);
      continue;
    }
    ++accepted;
    (void)OffloadConfig::from_od_config(*config).status();
  }
  EXPECT_GT(accepted, 100);
}

TEST(OmniDiffusionConfigJson, WhatIsNoJsonIsAnErrorAndNoCrash) {
  for (const std::string& text :
       {std::string(), std::string("{"), std::string("{\"mode\": \"\xff\"}"),
        std::string("\0", 1), std::string(1 << 20, '['),
        std::string(1 << 16, '{')}) {
    EXPECT_EQ(message(text), "the configuration is no JSON");
  }
  EXPECT_LT(message("{\"" + std::string(1 << 20, 'k') + "\": 1}").size(),
            1024u);
}

}  // namespace
}  // namespace ferry
