#include "offload/distributed/choose_transfer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace ferry {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr int64_t kGiga = 1'000'000'000;

TransferNeeds needs(double local_gigabytes) {
  TransferNeeds needs;
  needs.ranks = 4;
  needs.local_bytes = static_cast<int64_t>(local_gigabytes * kGiga);
  needs.gathered_bytes = 12 * kGiga;
  return needs;
}

TEST(ChooseTransfer, AFailedTrialSaysWhatWasTriedAndWhatCameOfIt) {
  TransferNeeds tried = needs(8);
  tried.blocks = 57;
  const TransferChoice choice = explain_failed_trial(
      tried, absl::FailedPreconditionError("rank 1: blocks.0 runs again"));
  EXPECT_FALSE(choice.gathers);
  EXPECT_EQ(choice.reason,
            "each rank copies for itself: to gather the 12000000000 bytes of "
            "57 blocks over 4 ranks was tried with the smallest request, and "
            "failed: rank 1: blocks.0 runs again");
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
  EXPECT_FALSE(choose_transfer(needs(3.3), {10e9, 10e9, 120e9, 100e9}).gathers);
  EXPECT_TRUE(choose_transfer(needs(3.4), {10e9, 10e9, 120e9, 100e9}).gathers);
}

// 300 ms against 800 for the transfers alone.
TransferChoice choose_with(absl::Duration compute) {
  TransferNeeds with = needs(8);
  with.blocks = 40;
  with.compute = compute;
  return choose_transfer(with, {25e9, 10e9, 120e9, 100e9});
}

// From where compute takes nine tenths of what copies do, it hides enough.
TEST(ChooseTransfer, ComputeHidesWhatCopiesTake) {
  for (const int shorter : {1, 299, 300, 301, 719}) {
    EXPECT_TRUE(choose_with(absl::Milliseconds(shorter)).gathers) << shorter;
  }
  for (const int longer : {721, 800, 801, 100'000}) {
    EXPECT_FALSE(choose_with(absl::Milliseconds(longer)).gathers) << longer;
  }
}

TEST(ChooseTransfer, WhatIsEqualIsNotGathered) {
  // Both gathers, and both copies, take as long as compute.
  EXPECT_FALSE(choose_with(absl::Milliseconds(800)).gathers);
  EXPECT_FALSE(choose_transfer({}, {25e9, 10e9, 120e9, 100e9}).gathers);
}

TEST(ChooseTransfer, SaysWhatItKnowsOfCompute) {
  EXPECT_THAT(
      choose_with(absl::Milliseconds(400)).reason,
      AllOf(HasSubstr("ranks gather: "),
            HasSubstr("beside copies); to run its 40 blocks takes 400.000 ms "
                      "at the smallest request, 10.000 ms a block")));
  EXPECT_THAT(choose_with(absl::Seconds(4)).reason,
              AllOf(HasSubstr("each rank copies for itself: "),
                    HasSubstr("takes 4000.000 ms at the smallest request, "
                              "100.000 ms a block")));
  EXPECT_THAT(choose_with(absl::ZeroDuration()).reason,
              Not(HasSubstr("smallest")));
}

TEST(ChooseTransfer, TheLessComputeTheMoreItIsWorth) {
  bool gathers = true;
  for (int ms = 0; ms < 1000; ms += 10) {
    const bool now = choose_with(absl::Milliseconds(ms)).gathers;
    EXPECT_TRUE(gathers || !now) << ms;
    gathers = now;
  }
  EXPECT_FALSE(gathers);
}

}  // namespace
}  // namespace ferry
