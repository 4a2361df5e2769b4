#include "offload/distributed/pass_protocol.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"

namespace ferry {
namespace {

using testing::HasSubstr;
using Kind = PassProtocol::WorkKind;

constexpr int kNone = PassProtocol::kNone;
constexpr int kFirst = 0;
constexpr int kSecond = 1;

// Two components of three blocks, two slots.
PassProtocol make_protocol() { return PassProtocol({3, 3}, 2); }

void gather(PassProtocol& protocol) {
  protocol.begin_gather();
  protocol.end_gather();
}

int gather_all(PassProtocol& protocol) {
  int count = 0;
  while (protocol.next().kind == Kind::kGather) {
    gather(protocol);
    ++count;
  }
  return count;
}

// Runs the blocks from `first`, with the gathers that they need.
void compute(PassProtocol& protocol, int first) {
  for (int block = first; block < 3; ++block) {
    ASSERT_TRUE(protocol.want_block(block).ok());
    while (!protocol.wanted_slot()) gather(protocol);
    protocol.begin_use();
    protocol.end_use();
  }
  protocol.end_pass();
}

TEST(PassProtocolTest, AskingWhileIdleWantsAWaveOnce) {
  PassProtocol protocol = make_protocol();
  EXPECT_EQ(protocol.take_wave_wanted(), std::nullopt);
  protocol.ask(0, kNone);
  EXPECT_EQ(protocol.take_wave_wanted(), std::optional<int64_t>(0));
  EXPECT_EQ(protocol.take_wave_wanted(), std::nullopt);
  protocol.start_wave(1);
  EXPECT_EQ(protocol.next().kind, Kind::kVote);
}

TEST(PassProtocolTest, LeftUnservedItWantsTheNextWave) {
  PassProtocol protocol = make_protocol();
  protocol.start_wave(1);
  EXPECT_EQ(protocol.begin_vote(), kNone);
  protocol.ask(0, kNone);
  EXPECT_EQ(protocol.take_wave_wanted(), std::nullopt);
  protocol.end_vote({});
  EXPECT_EQ(protocol.take_wave_wanted(), std::optional<int64_t>(1));
}

TEST(PassProtocolTest, EveryWaveHasAVoteOfItsOwn) {
  PassProtocol protocol = make_protocol();
  protocol.start_wave(2);
  for (int wave = 0; wave < 2; ++wave) {
    ASSERT_EQ(protocol.next().kind, Kind::kVote) << wave;
    protocol.begin_vote();
    protocol.end_vote({});
  }
  EXPECT_TRUE(protocol.is_idle());
  // Late, and told already.
  protocol.start_wave(1);
  EXPECT_TRUE(protocol.is_idle());
}

TEST(PassProtocolTest, APredictedPassIsHeldAndComputedWithoutAnotherVote) {
  PassProtocol protocol = make_protocol();
  protocol.start_wave(1);
  protocol.ask(0, 0);
  EXPECT_EQ(protocol.begin_vote(), kFirst);
  protocol.end_vote({kFirst});
  ASSERT_TRUE(protocol.is_granted());
  compute(protocol, 0);
  ASSERT_EQ(protocol.next().kind, Kind::kVote);
  EXPECT_EQ(protocol.begin_vote(), kFirst);
  protocol.end_vote({kFirst});
  // Fills its slots ahead, and no more.
  EXPECT_EQ(gather_all(protocol), 2);
  EXPECT_EQ(protocol.next().kind, Kind::kNothing);
  protocol.ask(0, kNone);
  EXPECT_TRUE(protocol.is_granted());
  EXPECT_EQ(protocol.granted_pass(), 2);
  compute(protocol, 0);
  EXPECT_EQ(protocol.begin_vote(), kNone);
}

TEST(PassProtocolTest, AWrongPredictionMakesAGhostThatGathersEverything) {
  PassProtocol protocol = make_protocol();
  protocol.start_wave(1);
  protocol.ask(0, 0);
  protocol.begin_vote();
  protocol.end_vote({kFirst});
  compute(protocol, 0);
  protocol.begin_vote();
  protocol.end_vote({kFirst});
  EXPECT_EQ(gather_all(protocol), 2);
  protocol.ask(1, kNone);
  EXPECT_FALSE(protocol.is_granted());
  EXPECT_EQ(gather_all(protocol), 1);
  EXPECT_EQ(protocol.begin_vote(), kSecond);
}

// Another rank's pass has begun.
PassProtocol in_an_open_pass() {
  PassProtocol protocol = make_protocol();
  protocol.start_wave(1);
  EXPECT_EQ(protocol.begin_vote(), kNone);
  protocol.end_vote({kFirst});
  return protocol;
}

TEST(PassProtocolTest, WhoAsksBeforeItYieldsComputesAPassThatHasBegun) {
  for (int gathers = 0; gathers <= 2; ++gathers) {
    PassProtocol protocol = in_an_open_pass();
    for (int i = 0; i < gathers; ++i) gather(protocol);
    protocol.ask(0, kNone);
    ASSERT_TRUE(protocol.is_granted()) << gathers;
    compute(protocol, 0);
    EXPECT_EQ(protocol.begin_vote(), kNone);
  }
}

TEST(PassProtocolTest, ItYieldsWhenItsSlotsAreFull) {
  PassProtocol protocol = in_an_open_pass();
  EXPECT_EQ(gather_all(protocol), 2);
  const PassProtocol::Work work = protocol.next();
  ASSERT_EQ(work.kind, Kind::kYield);
  // What came last.
  EXPECT_EQ(work.block, 1);
  EXPECT_EQ(protocol.coming().block, 2);
  protocol.yield(protocol.passes());
  protocol.ask(0, kNone);
  EXPECT_FALSE(protocol.is_granted());
  EXPECT_EQ(gather_all(protocol), 1);
  EXPECT_EQ(protocol.begin_vote(), kFirst);
}

TEST(PassProtocolTest, ToYieldIsNothingOnceItWasAskedFor) {
  PassProtocol protocol = in_an_open_pass();
  EXPECT_EQ(gather_all(protocol), 2);
  const int64_t pass = protocol.passes();
  protocol.ask(0, kNone);
  protocol.yield(pass);
  ASSERT_TRUE(protocol.is_granted());
  compute(protocol, 0);
  // Nor in the pass after it.
  protocol.begin_vote();
  protocol.end_vote({kFirst});
  protocol.yield(pass);
  protocol.ask(0, kNone);
  EXPECT_TRUE(protocol.is_granted());
}

TEST(PassProtocolTest, AskingForAnotherPassItYieldsAtOnce) {
  PassProtocol protocol = in_an_open_pass();
  EXPECT_EQ(gather_all(protocol), 2);
  protocol.ask(1, kNone);
  EXPECT_EQ(gather_all(protocol), 1);
  EXPECT_EQ(protocol.begin_vote(), kSecond);
}

TEST(PassProtocolTest, AHeldPassThatIsWithdrawnMayBeTheNextRequests) {
  PassProtocol protocol = make_protocol();
  protocol.start_wave(1);
  protocol.ask(0, 0);
  protocol.begin_vote();
  protocol.end_vote({kFirst});
  compute(protocol, 0);
  protocol.begin_vote();
  protocol.end_vote({kFirst});
  EXPECT_EQ(gather_all(protocol), 2);
  protocol.withdraw();
  EXPECT_EQ(protocol.next().kind, Kind::kYield);
  protocol.ask(0, kNone);
  EXPECT_TRUE(protocol.is_granted());
}

// The next pass begins while the last block of this one runs.
TEST(PassProtocolTest, ItDoesNotYieldWhileItComputesThePassBefore) {
  PassProtocol protocol = make_protocol();
  protocol.start_wave(1);
  protocol.ask(0, kNone);
  protocol.begin_vote();
  protocol.end_vote({kFirst});
  for (int block = 0; block < 3; ++block) {
    ASSERT_TRUE(protocol.want_block(block).ok());
    while (!protocol.wanted_slot()) gather(protocol);
    protocol.begin_use();
    if (block < 2) protocol.end_use();
  }
  EXPECT_EQ(protocol.begin_vote(), kNone);
  protocol.end_vote({kFirst});
  EXPECT_EQ(gather_all(protocol), 1);
  EXPECT_EQ(protocol.next().kind, Kind::kNothing);
  protocol.end_use();
  protocol.end_pass();
  EXPECT_EQ(gather_all(protocol), 1);
  ASSERT_EQ(protocol.next().kind, Kind::kYield);
  EXPECT_EQ(protocol.next().block, 1);
}

TEST(PassProtocolTest, ComponentsOfAVoteComeInOrder) {
  PassProtocol protocol = make_protocol();
  protocol.start_wave(1);
  protocol.ask(1, kNone);
  protocol.begin_vote();
  protocol.end_vote({kFirst, kSecond});
  EXPECT_FALSE(protocol.is_granted());
  for (int block = 0; block < 3; ++block) {
    EXPECT_EQ(protocol.next().component, 0);
    EXPECT_EQ(protocol.next().block, block);
    gather(protocol);
  }
  EXPECT_TRUE(protocol.is_granted());
  EXPECT_EQ(protocol.next().component, 1);
}

TEST(PassProtocolTest, ComponentsAreAsManyAsThereAre) {
  for (const int components : {64, 65, 70, 128, 130, 1000}) {
    SCOPED_TRACE(components);
    const int last = components - 1;
    PassProtocol protocol(std::vector<int>(static_cast<size_t>(components), 1),
                          1);
    protocol.start_wave(1);
    protocol.ask(last, kNone);
    EXPECT_EQ(protocol.begin_vote(), last);
    std::vector<int> wanted(static_cast<size_t>(components));
    std::iota(wanted.begin(), wanted.end(), 0);
    protocol.end_vote(std::move(wanted));
    // A ghost of all but its own.
    for (int component = 0; component < components; ++component) {
      ASSERT_EQ(protocol.is_granted(), component == last);
      ASSERT_EQ(protocol.next().component, component);
      gather(protocol);
    }
    EXPECT_EQ(protocol.granted_pass(), components);
    EXPECT_TRUE(protocol.wanted_slot().has_value());
  }
}

TEST(PassProtocolTest, SkippedBlocksFreeTheirSlots) {
  PassProtocol protocol = make_protocol();
  protocol.start_wave(1);
  protocol.ask(0, kNone);
  protocol.begin_vote();
  protocol.end_vote({kFirst});
  EXPECT_EQ(gather_all(protocol), 2);
  compute(protocol, 2);
  EXPECT_EQ(protocol.next().kind, Kind::kVote);
}

TEST(PassProtocolTest, ABlockRunsOnceAndForwards) {
  PassProtocol protocol = make_protocol();
  protocol.start_wave(1);
  protocol.ask(0, kNone);
  protocol.begin_vote();
  protocol.end_vote({kFirst});
  gather_all(protocol);
  ASSERT_TRUE(protocol.want_block(1).ok());
  protocol.begin_use();
  const absl::Status nested = protocol.want_block(2);
  EXPECT_EQ(nested.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(nested.message(), HasSubstr("block 2 runs inside of block 1"));
  protocol.end_use();
  for (const int block : {0, 1}) {
    const absl::Status again = protocol.want_block(block);
    EXPECT_EQ(again.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(again.message(), HasSubstr("again, or after block 1"));
  }
  ASSERT_TRUE(protocol.want_block(2).ok());
}

TEST(PassProtocolTest, WithdrawnInTheMiddleItGathersOn) {
  PassProtocol protocol = make_protocol();
  protocol.start_wave(1);
  protocol.ask(0, 0);
  protocol.begin_vote();
  protocol.end_vote({kFirst});
  gather_all(protocol);
  protocol.withdraw();
  EXPECT_FALSE(protocol.is_granted());
  EXPECT_EQ(gather_all(protocol), 1);
  EXPECT_EQ(protocol.begin_vote(), kNone);
}

// What would index what is not there.
TEST(PassProtocolDeathTest, BrokenContractsEndTheProcess) {
  EXPECT_DEATH(PassProtocol({3}, 0), "check failed: slots >= 1 \\(0 and 1\\)");
  EXPECT_DEATH(PassProtocol({3, 0}, 2), "count >= 1 \\(0 and 1\\)");
  PassProtocol protocol = make_protocol();
  EXPECT_DEATH(protocol.ask(2, kNone), "is_component\\(component\\)");
  EXPECT_DEATH(protocol.ask(-1, kNone), "is_component\\(component\\)");
  EXPECT_DEATH(protocol.ask(0, 2), "is_component\\(prediction\\)");
  EXPECT_DEATH((void)protocol.granted_pass(), "is_granted");
  EXPECT_DEATH((void)protocol.want_block(0), "is_granted");
  EXPECT_DEATH(protocol.begin_use(), "slot.has_value");
  EXPECT_DEATH(protocol.end_use(), "in_use_ != kNone");
  EXPECT_DEATH(protocol.end_pass(), "is_granted");
  EXPECT_DEATH((void)protocol.begin_vote(), "transport_ == Transport::kToVote");
  EXPECT_DEATH(protocol.end_vote({}), "transport_ == Transport::kVoting");
  EXPECT_DEATH(protocol.begin_gather(), "work.kind == WorkKind::kGather");
  EXPECT_DEATH(protocol.end_gather(), "is_gathering");
  protocol.ask(0, kNone);
  EXPECT_DEATH(protocol.ask(0, kNone), "step_ == Step::kLocal");
  protocol.start_wave(1);
  (void)protocol.begin_vote();
  EXPECT_DEATH(protocol.end_vote({kFirst, 2}), "is_component\\(component\\)");
  protocol.end_vote({kFirst});
  gather_all(protocol);
  ASSERT_TRUE(protocol.want_block(0).ok());
  protocol.begin_use();
  EXPECT_DEATH(protocol.withdraw(), "in_use_ == kNone");
  EXPECT_DEATH(protocol.end_pass(), "in_use_ == kNone");
  EXPECT_DEATH(protocol.begin_use(), "in_use_ == kNone");
}

}  // namespace
}  // namespace ferry
