#include "platform/device/simulated/access_history.h"

#include <gtest/gtest.h>

#include <array>
#include <random>
#include <vector>

#include "platform/device/simulated/vector_clock.h"

namespace ferry {
namespace {

using Reason = AccessConflict::Reason;

// A clock that knows the first `epoch` pieces of work of `owner`.
VectorClock knows(int owner, int64_t epoch) {
  VectorClock clock;
  for (int64_t i = 0; i < epoch; ++i) clock.tick(owner);
  return clock;
}

class AccessHistoryTest : public testing::Test {
 protected:
  AccessHistoryTest() {
    history_.add({0, 100}, {AccessType::kCopyTo, 1, 5, 50});
  }

  AccessHistory history_;
};

TEST_F(AccessHistoryTest, WhatIsOrderedIsNoConflict) {
  EXPECT_FALSE(
      history_.find_conflict({0, 100}, AccessType::kUseRead, knows(1, 5)));
  EXPECT_FALSE(
      history_.find_conflict({0, 100}, AccessType::kCopyTo, knows(1, 6)));
}

TEST_F(AccessHistoryTest, NamesTheWriteAndTheBytesThatBothTouch) {
  const auto conflict =
      history_.find_conflict({90, 120}, AccessType::kUseRead, knows(1, 4));
  ASSERT_TRUE(conflict);
  EXPECT_EQ(conflict->reason, Reason::kUnordered);
  EXPECT_EQ(conflict->earlier.number, 50);
  EXPECT_EQ(conflict->later, AccessType::kUseRead);
  EXPECT_EQ(conflict->range.begin, 90u);
  EXPECT_EQ(conflict->range.end, 100u);
}

TEST_F(AccessHistoryTest, NeighboursAreNoConflict) {
  EXPECT_FALSE(
      history_.find_conflict({100, 200}, AccessType::kCopyTo, VectorClock()));
}

TEST_F(AccessHistoryTest, ReadsDoNotConflictWithReads) {
  history_.add({0, 100}, {AccessType::kUseRead, 2, 1, 51});
  EXPECT_FALSE(
      history_.find_conflict({0, 100}, AccessType::kUseRead, knows(1, 5)));
}

TEST_F(AccessHistoryTest, AWriteMustKnowTheReadsOfEveryOwner) {
  history_.add({0, 50}, {AccessType::kUseRead, 2, 1, 51});
  history_.add({20, 30}, {AccessType::kCopyFrom, 3, 7, 52});
  VectorClock clock = knows(1, 5);
  clock.join(knows(2, 1));
  const auto conflict =
      history_.find_conflict({0, 100}, AccessType::kCopyTo, clock);
  ASSERT_TRUE(conflict);
  EXPECT_EQ(conflict->earlier.number, 52);
  EXPECT_EQ(conflict->range.begin, 20u);
  EXPECT_EQ(conflict->range.end, 30u);
  clock.join(knows(3, 7));
  EXPECT_FALSE(history_.find_conflict({0, 100}, AccessType::kCopyTo, clock));
}

TEST_F(AccessHistoryTest, OnlyTheLastReadOfAnOwnerCounts) {
  history_.add({0, 100}, {AccessType::kUseRead, 2, 1, 51});
  history_.add({0, 100}, {AccessType::kUseRead, 2, 9, 52});
  VectorClock clock = knows(1, 5);
  clock.join(knows(2, 8));
  const auto conflict =
      history_.find_conflict({0, 100}, AccessType::kCopyTo, clock);
  ASSERT_TRUE(conflict);
  EXPECT_EQ(conflict->earlier.number, 52);
}

TEST_F(AccessHistoryTest, AReadOfWhatWasDiscardedFindsNoContent) {
  history_.add({10, 20}, {AccessType::kDiscard, 1, 6, 51});
  const auto conflict =
      history_.find_conflict({0, 100}, AccessType::kUseRead, knows(1, 6));
  ASSERT_TRUE(conflict);
  EXPECT_EQ(conflict->reason, Reason::kNoContent);
  EXPECT_EQ(conflict->earlier.number, 51);
  EXPECT_EQ(conflict->range.begin, 10u);
  history_.add({10, 20}, {AccessType::kCopyTo, 1, 7, 52});
  EXPECT_FALSE(
      history_.find_conflict({0, 100}, AccessType::kUseRead, knows(1, 7)));
}

TEST_F(AccessHistoryTest, ForgetsExactlyWhatItIsTold) {
  history_.forget({40, 60});
  EXPECT_FALSE(
      history_.find_conflict({40, 60}, AccessType::kCopyTo, VectorClock()));
  EXPECT_TRUE(
      history_.find_conflict({39, 60}, AccessType::kCopyTo, VectorClock()));
  EXPECT_TRUE(
      history_.find_conflict({40, 61}, AccessType::kCopyTo, VectorClock()));
}

TEST_F(AccessHistoryTest, IsBoundedByRangesNotByTime) {
  for (int64_t i = 0; i < 1000; ++i) {
    for (uintptr_t block = 0; block < 4; ++block) {
      const AddressRange range = {25 * block, 25 * (block + 1)};
      history_.add(range, {AccessType::kCopyTo, 1, 6 + i, i});
      history_.add(range, {AccessType::kUseRead, 2, 1 + i, i});
    }
  }
  EXPECT_EQ(history_.size(), 4);
  history_.add({0, 100}, {AccessType::kDiscard, 2, 2000, 2000});
  EXPECT_EQ(history_.size(), 1);
}

// The same by remembering every access of every byte.
class Naive {
 public:
  bool conflicts(const AddressRange& range, AccessType type,
                 const VectorClock& clock) const {
    for (uintptr_t byte = range.begin; byte < range.end; ++byte) {
      const Byte& state = bytes_[byte];
      if (state.write && clock.at(state.write->owner) < state.write->epoch) {
        return true;
      }
      if (!is_write(type)) {
        if (state.write && (state.write->type == AccessType::kDiscard ||
                            state.write->type == AccessType::kAllocate)) {
          return true;
        }
        continue;
      }
      for (const Access& read : state.reads) {
        if (clock.at(read.owner) < read.epoch) return true;
      }
    }
    return false;
  }

  void add(const AddressRange& range, const Access& access) {
    for (uintptr_t byte = range.begin; byte < range.end; ++byte) {
      if (is_write(access.type)) {
        bytes_[byte] = {access, {}};
      } else {
        bytes_[byte].reads.push_back(access);
      }
    }
  }

  void forget(const AddressRange& range) {
    for (uintptr_t byte = range.begin; byte < range.end; ++byte) {
      bytes_[byte] = {};
    }
  }

 private:
  struct Byte {
    std::optional<Access> write;
    std::vector<Access> reads;
  };
  std::array<Byte, 64> bytes_;
};

TEST(AccessHistory, AgreesWithOneThatRemembersEveryByte) {
  constexpr std::array<AccessType, 6> kTypes = {
      AccessType::kAllocate, AccessType::kDiscard, AccessType::kCopyFrom,
      AccessType::kCopyTo,   AccessType::kUseRead, AccessType::kHostRead};
  int conflicts = 0;
  for (unsigned seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    const auto below = [&random](unsigned bound) {
      return static_cast<unsigned>(random() % bound);
    };
    AccessHistory history;
    Naive naive;
    std::array<VectorClock, 4> clocks;
    for (int64_t step = 0; step < 60; ++step) {
      const uintptr_t begin = below(64);
      const AddressRange range = {begin, begin + 1 + below(64 - begin)};
      if (below(20) == 0) {
        history.forget(range);
        naive.forget(range);
        continue;
      }
      const AccessType type = kTypes[below(kTypes.size())];
      const unsigned owner = below(clocks.size());
      if (below(2) == 0) clocks[owner].join(clocks[below(clocks.size())]);
      const bool expected = naive.conflicts(range, type, clocks[owner]);
      ASSERT_EQ(history.find_conflict(range, type, clocks[owner]).has_value(),
                expected)
          << "seed " << seed << ", step " << step;
      conflicts += expected ? 1 : 0;
      const Access access = {type, static_cast<int>(owner),
                             clocks[owner].tick(static_cast<int>(owner)), step};
      history.add(range, access);
      naive.add(range, access);
    }
  }
  // Both answers were seen.
  EXPECT_GT(conflicts, 1000);
  EXPECT_LT(conflicts, 11000);
}

}  // namespace
}  // namespace ferry
