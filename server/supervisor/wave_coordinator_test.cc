#include "server/supervisor/wave_coordinator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace ferry {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class WaveCoordinatorTest : public testing::Test {
 protected:
  // No lock: starts come one at a time.
  std::vector<int64_t> started_;
  WaveCoordinator waves_{[this](int64_t wave) { started_.push_back(wave); }};
};

TEST_F(WaveCoordinatorTest, StartsTheNextWhenTheLastIsOver) {
  EXPECT_EQ(waves_.last_wave(), 0);
  EXPECT_THAT(started_, IsEmpty());
  for (int64_t wave = 0; wave < 3; ++wave) {
    EXPECT_TRUE(waves_.wanted(wave).ok());
  }
  EXPECT_THAT(started_, ElementsAre(1, 2, 3));
  EXPECT_EQ(waves_.last_wave(), 3);
}

TEST_F(WaveCoordinatorTest, OneWaveForAllThatWantIt) {
  EXPECT_TRUE(waves_.wanted(0).ok());
  EXPECT_TRUE(waves_.wanted(0).ok());
  EXPECT_TRUE(waves_.wanted(1).ok());
  // Late ones of both.
  EXPECT_TRUE(waves_.wanted(0).ok());
  EXPECT_TRUE(waves_.wanted(1).ok());
  EXPECT_THAT(started_, ElementsAre(1, 2));
}

TEST_F(WaveCoordinatorTest, AWaveThatNeverWasIsAnError) {
  EXPECT_TRUE(waves_.wanted(0).ok());
  const absl::Status status = waves_.wanted(7);
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("after 7, and 1 was the last"));
  EXPECT_FALSE(waves_.wanted(-1).ok());
  EXPECT_THAT(started_, ElementsAre(1));
}

TEST_F(WaveCoordinatorTest, RisesByOneWhoeverAsks) {
  constexpr int kRanks = 4;
  constexpr int64_t kWaves = 1000;
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < kRanks; ++rank) {
    ranks.emplace_back([&] {
      for (int64_t wave = 0; wave < kWaves; ++wave) {
        EXPECT_TRUE(waves_.wanted(wave).ok());
      }
    });
  }
  for (std::thread& rank : ranks) rank.join();
  ASSERT_EQ(started_.size(), static_cast<size_t>(kWaves));
  for (int64_t i = 0; i < kWaves; ++i) {
    EXPECT_EQ(started_[static_cast<size_t>(i)], i + 1);
  }
}

}  // namespace
}  // namespace ferry
