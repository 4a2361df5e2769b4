#include "server/worker/offload_settings.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"

namespace ferry {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// What a load request with these settings comes to.
absl::StatusOr<OffloadConfig> resolve(const std::string& offload,
                                      const std::string& parallel = "",
                                      int ranks = 1) {
  worker::v1::LoadPipelineRequest request;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      absl::StrCat("world_size: ", ranks, " offload {", offload, "} parallel {",
                   parallel, "}"),
      &request));
  return make_offload_config(request);
}

std::string describe(const std::string& offload) {
  const auto config = resolve(offload);
  return config.ok() ? config->describe()
                     : std::string(config.status().message());
}

TEST(OffloadSettings, NothingIsAuto) {
  EXPECT_TRUE(resolve("")->is_automatic());
  EXPECT_TRUE(resolve("mode: 'auto'")->is_automatic());
  const auto config = resolve("pin_memory: false headroom_bytes: 7");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_TRUE(config->is_automatic());
  EXPECT_FALSE(config->pin_memory());
  EXPECT_EQ(config->headroom_bytes(), 7);
}

TEST(OffloadSettings, NoneIsNone) {
  const auto config = resolve("mode: 'none'");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_FALSE(config->is_automatic());
  EXPECT_FALSE(config->offload_enabled());
}

TEST(OffloadSettings, ReadsTheCompactForm) {
  EXPECT_EQ(describe("mode: 'layer' components: 'dit' "
                     "components: 'text_encoder' "
                     "layer_options { component: 'dit' resident_layers: 4 "
                     "weight_transfer: 'rank-local' } pin_memory: false "
                     "headroom_bytes: 9"),
            "strategy distributed_layer_wise, components dit rank-local + "
            "text_encoder rank-local, resident_layers 4, headroom_bytes 9, "
            "pin_memory false, group_size 1, effective_group_size 1");
  EXPECT_THAT(describe("mode: 'layer' components: 'dit' "
                       "memory_budget_bytes: 5"),
              HasSubstr("memory_budget_bytes 5"));
}

TEST(OffloadSettings, ReadsTheOlderForm) {
  EXPECT_EQ(describe("enable_distributed_layerwise_offload: true "
                     "dlo_use_allgather: false dlo_resident_layers: 2 "
                     "pin_cpu_memory: false"),
            "strategy distributed_layer_wise, resident_layers 2, pin_memory "
            "false, group_size 1, effective_group_size 1");
  EXPECT_THAT(describe("enable_cpu_offload: true"),
              HasSubstr("strategy model_level"));
  EXPECT_THAT(describe("enable_layerwise_offload: false"),
              HasSubstr("strategy none"));
}

TEST(OffloadSettings, NamesFieldsAsTheFileDoes) {
  EXPECT_THAT(describe("mode: 'always'"), HasSubstr("offload.mode: "));
  EXPECT_THAT(describe("mode: 'layer'"), HasSubstr("offload.components: "));
  EXPECT_THAT(
      describe("components: 'dit' layer_options { component: 'dit' } "
               "layer_options { component: 'dit' resident_layers: -1 }"),
      AllOf(HasSubstr("offload.mode: is required"),
            HasSubstr("\"dit\" is there twice"),
            HasSubstr("offload.layer_options.dit.resident_layers: ")));
  EXPECT_THAT(describe("mode: 'layer' components: 'dit' "
                       "dlo_use_allgather: false"),
              HasSubstr("dlo_use_allgather: cannot be combined"));
}

TEST(OffloadSettings, RanksServeTheirOwnRequestsUnlessTheyShareOne) {
  const std::string gathered =
      "mode: 'layer' components: 'dit' "
      "layer_options { component: 'dit' weight_transfer: 'allgather' }";
  EXPECT_EQ(resolve(gathered, "", 4)->group_size(), 4);
  const auto shared = resolve(gathered, "sequence_parallel_size: 2", 4);
  ASSERT_TRUE(shared.ok()) << shared.status();
  EXPECT_EQ(shared->parallel_config().data_parallel_size, 2);
  EXPECT_EQ(resolve(gathered, "sequence_parallel_size: 4", 4)->group_size(), 4);
}

TEST(OffloadSettings, SizesHaveToMakeUpTheRanks) {
  EXPECT_EQ(
      std::string(
          resolve("", "tensor_parallel_size: 2 data_parallel_size: 3", 4)
              .status()
              .message()),
      "ranks: 4, but parallel divides the work over 6 (data_parallel_size 3 × "
      "tensor_parallel_size 2); set ranks to 6, or other sizes");
  EXPECT_THAT(
      std::string(resolve("", "data_parallel_size: 1", 2).status().message()),
      HasSubstr("ranks: 2, but parallel divides the work over 1; set"));
  EXPECT_TRUE(resolve("", "data_parallel_size: 4", 4).ok());
  EXPECT_THAT(
      std::string(resolve("", "data_parallel_size: 0", 1).status().message()),
      HasSubstr("parallel_config.data_parallel_size: must be 1 to "));
}

}  // namespace
}  // namespace ferry
