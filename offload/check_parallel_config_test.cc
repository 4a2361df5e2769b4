#include "offload/check_parallel_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace ferry {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

std::string refusal(const DiffusionParallelConfig& config) {
  const absl::Status status = check_parallel_config(config);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented) << status;
  return std::string(status.message());
}

TEST(CheckParallelConfig, TakesAnyNumberOfRanksWithRequestsOfTheirOwn) {
  DiffusionParallelConfig config;
  for (const int64_t size : {1, 2, 64}) {
    config.data_parallel_size = size;
    EXPECT_TRUE(check_parallel_config(config).ok());
  }
  // Without HSDP they mean nothing.
  config.hsdp_shard_size = 2;
  config.hsdp_replicate_size = 2;
  EXPECT_TRUE(check_parallel_config(config).ok());
}

TEST(CheckParallelConfig, RefusesEachOtherKindAndSaysWhatWorks) {
  DiffusionParallelConfig config;
  config.tensor_parallel_size = 2;
  EXPECT_THAT(refusal(config),
              AllOf(HasSubstr("parallel_config.tensor_parallel_size: 2 is not"),
                    HasSubstr("offload mode \"layer\"")));
  config = {};
  config.sequence_parallel_size = 4;
  EXPECT_THAT(
      refusal(config),
      AllOf(HasSubstr("parallel_config.sequence_parallel_size: 4 is not"),
            HasSubstr("data_parallel_size")));
  config = {};
  config.cfg_parallel_size = 2;
  EXPECT_THAT(refusal(config),
              AllOf(HasSubstr("parallel_config.cfg_parallel_size: 2 is not"),
                    HasSubstr("one batched pass")));
  config = {};
  config.use_hsdp = true;
  EXPECT_THAT(refusal(config), AllOf(HasSubstr("parallel_config.use_hsdp: "),
                                     HasSubstr("offload mode \"layer\""),
                                     Not(HasSubstr("tensor_parallel_size"))));
}

TEST(CheckParallelConfig, NamesAllAtOnce) {
  DiffusionParallelConfig config;
  config.tensor_parallel_size = 2;
  config.cfg_parallel_size = 2;
  config.use_hsdp = true;
  EXPECT_THAT(refusal(config),
              AllOf(HasSubstr("tensor_parallel_size"),
                    HasSubstr("cfg_parallel_size"), HasSubstr("use_hsdp")));
}

}  // namespace
}  // namespace ferry
