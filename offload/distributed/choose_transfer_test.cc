#include "offload/distributed/choose_transfer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ferry {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr int64_t kGiga = 1'000'000'000;

TransferNeeds needs(int64_t local_gigabytes) {
  return {4, local_gigabytes * kGiga, 12 * kGiga};
}

TEST(ChooseTransfer, GathersWhereThatIsFaster) {
  const TransferChoice choice =
      choose_transfer(needs(8), {25e9, 10e9, 120e9, 100e9});
  EXPECT_TRUE(choice.gathers);
  // 12 ÷ 4 ÷ 10, and 8 ÷ 10 seconds.
  EXPECT_THAT(
      choice.reason,
      AllOf(
          HasSubstr("ranks gather: "),
          HasSubstr("gather 12000000000 bytes over 4 ranks takes 300.000 ms"),
          HasSubstr("copy 8000000000 bytes on each rank 800.000 ms"),
          HasSubstr("25.000 GB/s alone, 10.000 GB/s on all ranks at once, "
                    "gathers 120.000 GB/s alone, 100.000 GB/s beside copies")));
}

TEST(ChooseTransfer, CopiesWhereGathersAreSlow) {
  const TransferChoice choice =
      choose_transfer(needs(8), {25e9, 10e9, 50e9, 5e9});
  EXPECT_FALSE(choice.gathers);
  EXPECT_THAT(choice.reason, AllOf(HasSubstr("each rank copies for itself: "),
                                   HasSubstr("takes 2400.000 ms")));
}

TEST(ChooseTransfer, CopiesWhereMostBlocksStay) {
  EXPECT_FALSE(choose_transfer(needs(1), {25e9, 10e9, 120e9, 100e9}).gathers);
}

TEST(ChooseTransfer, ToWaitForOthersMustBeWorthIt) {
  // 300 ms against 330, and against 340.
  EXPECT_FALSE(choose_transfer({4, 3'300'000'000, 12 * kGiga},
                               {10e9, 10e9, 120e9, 100e9})
                   .gathers);
  EXPECT_TRUE(choose_transfer({4, 3'400'000'000, 12 * kGiga},
                              {10e9, 10e9, 120e9, 100e9})
                  .gathers);
}

}  // namespace
}  // namespace ferry
