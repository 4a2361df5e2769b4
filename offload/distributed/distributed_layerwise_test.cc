#include <ATen/Parallel.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "offload/distributed/gathered_weights.h"
#include "offload/distributed/pass_engine.h"
#include "offload/distributed/try_passes.h"
#include "offload/forward_output.h"
#include "offload/model_hook.h"
#include "offload/offload_stats.h"
#include "offload/offloadable_module.h"
#include "offload/placement_backend.h"
#include "offload/placement_plan.h"
#include "offload/testing/checked_platform.h"
#include "offload/testing/toy_group.h"
#include "offload/testing/toy_module.h"
#include "offload/wave_participant.h"
#include "platform/base/clock.h"
#include "platform/device/simulated/fault_plan.h"
#include "platform/distributed/in_process/in_process_group.h"
#include "platform/distributed/testing/rank_threads.h"

namespace ferry {
namespace {

using testing::Each;
using testing::HasSubstr;
using testing::IsEmpty;

ToyGroupOptions options_for(int ranks) {
  at::set_num_threads(1);
  ToyGroupOptions options;
  options.ranks = ranks;
  options.device = checked_device();
  return options;
}

int64_t bytes_of_tensors(const ToyModule& module) {
  int64_t bytes = 0;
  for (const std::string& tensor : state_of(module)) {
    bytes += static_cast<int64_t>(tensor.size());
  }
  return bytes;
}

TEST(DistributedLayerwiseTest, RanksWithDifferentRequestsComputeWhatOneDoes) {
  ToyGroup group(options_for(3));
  ASSERT_THAT(group.enable(), Each(absl::OkStatus()));
  run_ranks(3, [&](int rank) {
    for (int request = 0; request < 3; ++request) {
      group.expect_request(rank, 1 + 2 * rank + request);
    }
  });
  const OffloadStats stats = group.rank(1).backend->stats();
  EXPECT_GT(stats.h2d_bytes, 0);
  EXPECT_EQ(stats.gathered_bytes, 3 * stats.h2d_bytes);
  EXPECT_THAT(group.violations(), IsEmpty());
}

TEST(DistributedLayerwiseTest, ARankAloneServesWhileOthersAreIdle) {
  ToyGroup group(options_for(3));
  ASSERT_THAT(group.enable(), Each(absl::OkStatus()));
  group.expect_request(1, 4);
  group.expect_request(2, 1);
  EXPECT_THAT(group.violations(), IsEmpty());
}

// Each stack is a ring, and a rank may want any of them at any time.
TEST(DistributedLayerwiseTest, RingsAreAsManyAsThePipelineHas) {
  for (const int rings : {64, 65, 70, 130}) {
    SCOPED_TRACE(rings);
    ToyGroupOptions options = options_for(2);
    options.toy.encoders = rings - 1;
    options.toy.blocks = 2;
    ToyGroup group(options);
    ASSERT_THAT(group.enable(), Each(absl::OkStatus()));
    run_ranks(2, [&](int rank) {
      const auto mine = static_cast<size_t>(rank);
      const auto last = static_cast<size_t>(rings) - 1;
      for (const size_t ring : {last - mine, mine, size_t{62} + mine, last}) {
        EXPECT_TRUE(group.is_same(rank, ring, toy_input())) << ring;
      }
      group.rank(rank).backend->end_generation();
    });
    ASSERT_THAT(group.disable(), Each(absl::OkStatus()));
    EXPECT_THAT(group.violations(), IsEmpty());
  }
}

TEST(DistributedLayerwiseTest, TheHostHoldsEachBlockOnce) {
  ToyGroupOptions options = options_for(4);
  options.toy.blocks = 9;
  ToyGroup group(options);
  const int64_t weights = bytes_of_tensors(*group.rank(0).module);
  ASSERT_THAT(group.enable(), Each(absl::OkStatus()));
  int64_t shared = 0;
  for (int rank = 0; rank < 4; ++rank) {
    const OffloadStats stats = group.rank(rank).backend->stats();
    shared += stats.host_bytes - stats.resident_bytes;
    EXPECT_EQ(stats.slots, 2);
  }
  EXPECT_LT(shared, weights + weights / 10);
}

TEST(DistributedLayerwiseTest, DisabledTogetherTheyHaveOrdinaryTensors) {
  ToyGroup group(options_for(3));
  for (int round = 0; round < 2; ++round) {
    ASSERT_THAT(group.enable(), Each(absl::OkStatus()));
    run_ranks(3, [&](int rank) { group.expect_request(rank, rank); });
    ASSERT_THAT(group.disable(), Each(absl::OkStatus()));
    for (int rank = 0; rank < 3; ++rank) {
      ToyGroup::Rank& mine = group.rank(rank);
      EXPECT_EQ(state_of(*mine.module), package_state_of(*mine.twin));
      EXPECT_THAT(mine.module->hook_names(), IsEmpty());
      EXPECT_EQ(mine.platform->simulated_device().stats().device.bytes_in_use,
                0);
    }
  }
  EXPECT_THAT(group.violations(), IsEmpty());
}

TEST(DistributedLayerwiseTest, RanksThatDisagreeMakeNoCollective) {
  ToyGroup group(options_for(3));
  group.rank(1).module->all_tensors()[0].data_ptr<float>()[0] += 1;
  for (const absl::Status& status : group.enable()) {
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(status.message(), HasSubstr("ranks disagree"));
    EXPECT_THAT(status.message(), HasSubstr("ranks 0, 2: version"));
    EXPECT_THAT(status.message(), HasSubstr("ranks 1: version"));
  }
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_FALSE(group.rank(rank).backend->is_enabled());
    EXPECT_EQ(group.rank(rank).backend->stats().gathered_bytes, 0);
  }
}

TEST(DistributedLayerwiseTest, AStartThatFailsOnOneRankFailsOnAllAndIsFinal) {
  // Before a tensor is touched, and in the middle of packing.
  for (const int64_t nth : {1, 4}) {
    ToyGroup group(options_for(3));
    group.rank(2).platform->simulated_device().faults().fail(
        FaultPoint::kAllocateHost, nth);
    for (const absl::Status& status : group.enable()) {
      EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
      EXPECT_THAT(status.message(), HasSubstr("rank 2: "));
    }
    for (const absl::Status& again : group.enable()) {
      EXPECT_FALSE(again.ok());
    }
    for (int rank = 0; rank < 3; ++rank) {
      EXPECT_FALSE(group.rank(rank).backend->is_enabled());
      EXPECT_THAT(group.rank(rank).module->hook_names(), IsEmpty());
    }
  }
}

TEST(DistributedLayerwiseTest, ARepeatedBlockFailsItsRequestAlone) {
  ToyGroup group(options_for(2));
  ASSERT_THAT(group.enable(), Each(absl::OkStatus()));
  run_ranks(2, [&](int rank) {
    if (rank == 0) return group.expect_request(0, 6);
    const auto repeated =
        group.rank(1).module->run(0, toy_input(), {0, 1, 1, 2, 3});
    EXPECT_EQ(repeated.status().code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(repeated.status().message(),
                HasSubstr("dit_0.blocks.1: block 1 runs again"));
    group.rank(1).backend->end_generation();
    group.expect_request(1, 2);
  });
  EXPECT_THAT(group.violations(), IsEmpty());
}

TEST(DistributedLayerwiseTest, SkippedBlocksAreSkipped) {
  ToyGroup group(options_for(2));
  ASSERT_THAT(group.enable(), Each(absl::OkStatus()));
  run_ranks(2, [&](int rank) {
    if (rank == 0) return group.expect_request(0, 3);
    for (const std::vector<size_t>& order :
         {std::vector<size_t>{1, 3}, {0}, {}, {3}, {0, 1, 2, 3}}) {
      const auto mine = group.rank(1).module->run(0, toy_input(), order);
      ASSERT_TRUE(mine.ok()) << mine.status();
      const auto twin = group.rank(1).twin->run(0, toy_input(), order);
      EXPECT_EQ(bytes_of(*mine), bytes_of(*twin));
    }
    group.rank(1).backend->end_generation();
  });
  EXPECT_THAT(group.violations(), IsEmpty());
}

TEST(DistributedLayerwiseTest, APassThatIsAbandonedIsMadeToTheEnd) {
  ToyGroup group(options_for(2));
  ASSERT_THAT(group.enable(), Each(absl::OkStatus()));
  run_ranks(2, [&](int rank) {
    if (rank == 0) return group.expect_request(0, 5);
    for (const size_t block : {0U, 2U}) {
      EXPECT_EQ(group.rank(1).module->abandon(0, block), absl::OkStatus());
      group.rank(1).backend->end_generation();
    }
    group.expect_request(1, 2);
  });
  EXPECT_THAT(group.violations(), IsEmpty());
}

// Stays in a block until `is_over`, or for a minute.
class StayHook final : public ModelHook {
 public:
  explicit StayHook(std::function<bool()> is_over)
      : is_over_(std::move(is_over)) {}
  const std::string& name() const override { return name_; }
  absl::Status pre_forward() override {
    const Clock& clock = Clock::real();
    const absl::Duration deadline = clock.monotonic() + absl::Minutes(1);
    while (!is_over_()) {
      if (clock.monotonic() > deadline) {
        return absl::DeadlineExceededError("it is never over");
      }
      std::this_thread::yield();
    }
    return absl::OkStatus();
  }
  absl::Status post_forward(ForwardOutput& /*output*/) override {
    return absl::OkStatus();
  }

 private:
  const std::string name_ = "stay";
  const std::function<bool()> is_over_;
};

TEST(DistributedLayerwiseTest, AShareIsCopiedBeforeThereIsASlotForItsBlock) {
  ToyGroupOptions options = options_for(2);
  options.slots = 1;
  ToyGroup group(options);
  ASSERT_THAT(group.enable(), Each(absl::OkStatus()));
  const PlacementBackend& backend = *group.rank(0).backend;
  group.expect_request(0, 1);
  const int64_t one_pass = backend.stats().h2d_bytes;
  // The only slot has the first block, and keeps it until more is copied.
  ToyModule& module = *group.rank(0).module;
  const OffloadableBlock& first = module.components()[0].stacks[0].blocks[0];
  ASSERT_EQ(module.hooks(first.module)->add(std::make_unique<StayHook>([&] {
    const int64_t copied = backend.stats().h2d_bytes - one_pass;
    return copied >= 2 * one_pass / options.toy.blocks;
  })),
            absl::OkStatus());
  group.expect_request(0, 1);
  EXPECT_EQ(backend.stats().h2d_bytes, 2 * one_pass);
  EXPECT_THAT(group.violations(), IsEmpty());
}

// The pass has begun for both of them, and goes on only when rank 1 has run the
// first of its blocks.
TEST(DistributedLayerwiseTest, WhoAsksEarlyInAPassComputesIt) {
  for (const int slots : {2, 3}) {
    std::promise<void> begun;
    std::promise<void> joined;
    ToyGroupOptions options = options_for(2);
    options.slots = slots;
    options.weight_faults = [&](int rank, int64_t call) {
      if (rank == 1 && call == 1) begun.set_value();
      if (rank == 0 && call == slots) joined.get_future().wait();
      return CallFault();
    };
    ToyGroup group(options);
    ASSERT_THAT(group.enable(), Each(absl::OkStatus()));
    run_ranks(2, [&](int rank) {
      if (rank == 0) return group.expect_request(0, 1);
      begun.get_future().wait();
      EXPECT_EQ(group.rank(1).module->abandon(0, 0), absl::OkStatus());
      joined.set_value();
      group.rank(1).backend->end_generation();
    });
    ASSERT_THAT(group.disable(), Each(absl::OkStatus()));
    EXPECT_EQ(group.waves(), 1) << slots;
    EXPECT_THAT(group.violations(), IsEmpty());
  }
}

// Of the control group, while ranks start: the memory that they have, and two
// votes of two calls.
constexpr int kStartCalls = 5;

// A rank that is gone in the n-th call of either communicator.
void expect_the_group_ends(const CallFaults& control,
                           const CallFaults& weights) {
  ToyGroupOptions options = options_for(3);
  options.control_faults = control;
  options.weight_faults = weights;
  options.timeout = absl::Milliseconds(300);
  ToyGroup group(options);
  ASSERT_THAT(group.enable(), Each(absl::OkStatus()));
  run_ranks(3, [&](int rank) {
    absl::Status status;
    while (status.ok()) {
      status = group.rank(rank).module->run(0, toy_input()).status();
    }
    // Who does not come in time is late for one rank, and gone for those that
    // this one tells.
    EXPECT_TRUE(absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status))
        << status;
    EXPECT_FALSE(group.rank(rank).module->run(0, toy_input()).ok());
    // What is shared cannot be given back without the others.
    EXPECT_FALSE(group.rank(rank).backend->disable().ok());
  });
}

TEST(PassEngineDeathTest, BrokenContractsEndTheProcess) {
  ToyGroup group(options_for(2));
  ToyGroup::Rank& rank = group.rank(0);
  const std::unique_ptr<PassEngine> engine =
      *PassEngine::create(*rank.platform->device(), rank.group, 2, 512);
  TensorListOutput output{{}};
  EXPECT_DEATH((void)engine->pre_forward(0, 0),
               "ring < rings_.size\\(\\) \\(0 and 0\\)");
  EXPECT_DEATH((void)engine->post_forward(output), "is_bound_");
  EXPECT_DEATH(
      (void)try_passes(*engine, std::nullopt, [] { return absl::Status(); }),
      "group.choice != nullptr");
  EXPECT_DEATH((void)GatheredWeights::device_bytes(PlacementPlan(), 0),
               "ranks >= 1");
}

// As what a communicator, or a device, may throw.
CallFaults throwing_at(int64_t nth) {
  return [nth](int rank, int64_t call) {
    if (rank == 1 && call == nth) throw std::runtime_error("thrown in a call");
    return CallFault();
  };
}

TEST(DistributedLayerwiseTest, WhatAThreadThrowsEndsTheGroup) {
  // On the transport thread, and on the thread of a stream.
  for (const bool in_vote : {true, false}) {
    SCOPED_TRACE(in_vote);
    ToyGroupOptions options = options_for(3);
    (in_vote ? options.control_faults : options.weight_faults) =
        throwing_at(in_vote ? kStartCalls + 2 : 2);
    ToyGroup group(options);
    ASSERT_THAT(group.enable(), Each(absl::OkStatus()));
    run_ranks(3, [&](int rank) {
      absl::Status status;
      while (status.ok()) {
        status = group.rank(rank).module->run(0, toy_input()).status();
      }
      if (rank == 1) {
        EXPECT_THAT(std::string(status.message()),
                    HasSubstr("thrown in a call"));
      }
      EXPECT_FALSE(group.rank(rank).module->run(0, toy_input()).ok());
      EXPECT_FALSE(group.rank(rank).backend->disable().ok());
    });
  }
}

TEST(DistributedLayerwiseTest, WhatTheCoordinatorThrowsEndsTheGroup) {
  ToyGroup group(options_for(2));
  ASSERT_THAT(group.enable(), Each(absl::OkStatus()));
  group.rank(0).backend->wave_participant()->set_wave_wanted(
      [](int64_t) { throw std::runtime_error("no wave"); });
  // Alone: it would not ask for a wave that rank 1 has got.
  const absl::Status status =
      group.rank(0).module->run(0, toy_input()).status();
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("rank 0 of 2: the transport thread: no wave"));
}

CallFaults at_call(CallFault::Kind kind, int64_t nth) {
  return [kind, nth](int rank, int64_t call) {
    CallFault fault;
    if (rank == 1 && call == nth) fault.kind = kind;
    return fault;
  };
}

TEST(DistributedLayerwiseTest, ALostRankEndsTheGroupWhateverItIsDoing) {
  using Kind = CallFault::Kind;
  for (const int64_t nth : {1, 2, 3, 7, 12}) {
    SCOPED_TRACE(nth);
    // The first calls of the control group are the start's.
    expect_the_group_ends(at_call(Kind::kFails, kStartCalls + nth), nullptr);
    expect_the_group_ends(at_call(Kind::kNeverArrives, kStartCalls + nth),
                          nullptr);
    expect_the_group_ends(nullptr, at_call(Kind::kFails, nth));
    expect_the_group_ends(nullptr, at_call(Kind::kNeverArrives, nth));
  }
}

// Of a group: every shape of pipeline, and how many cases that makes.
int expect_identity(ToyGroupOptions options) {
  for (const int shape : {0, 1, 2, 3, 4, 5, 6, 7}) {
    options.toy.counts = (shape & 1) != 0;
    options.toy.returns_views = (shape & 2) != 0;
    options.toy.shares = (shape & 4) != 0;
    ToyGroup group(options);
    EXPECT_THAT(group.enable(), Each(absl::OkStatus()));
    run_ranks(options.ranks,
              [&](int rank) { group.expect_request(rank, 1 + rank); });
    EXPECT_GT(group.rank(0).backend->stats().h2d_bytes, 0);
    EXPECT_THAT(group.disable(), Each(absl::OkStatus()));
    for (int rank = 0; rank < options.ranks; ++rank) {
      EXPECT_EQ(state_of(*group.rank(rank).module),
                package_state_of(*group.rank(rank).twin));
    }
    EXPECT_THAT(group.violations(), IsEmpty());
  }
  return 8;
}

TEST(DistributedLayerwiseTest, EveryShapeOfGroupGivesTheSameBytes) {
  int cases = 0;
  for (const int ranks : {2, 3, 4}) {
    for (const int blocks : {2, 3, 4, 5, 7, 9}) {
      for (const int slots : {1, 2, 3, 4}) {
        ToyGroupOptions options = options_for(ranks);
        options.slots = slots;
        options.toy.blocks = blocks;
        options.unequal = blocks % 2 == 1;
        cases += expect_identity(options);
      }
    }
  }
  std::printf("byte-identity: %d cases\n", cases);
}

// Ranks that stream whole blocks, with and without one copy on their host.
TEST(DistributedLayerwiseTest, RankLocalGroupsGiveTheSameBytes) {
  int cases = 0;
  for (const int ranks : {1, 2, 3, 4}) {
    for (const int blocks : {4, 5, 9}) {
      for (const int64_t resident : {0, 1, blocks - 2}) {
        for (const bool shares : {false, true}) {
          ToyGroupOptions options = options_for(ranks);
          options.gathers = false;
          options.toy.blocks = blocks;
          options.unequal = blocks % 2 == 1;
          options.resident_layers = resident;
          options.shares_images = shares;
          cases += expect_identity(options);
        }
      }
    }
  }
  std::printf("byte-identity: %d cases\n", cases);
}

// One rank's part of a wave: a request with encoders and two DiTs, which may
// end anywhere.
void run_random_request(ToyGroup& group, int rank, std::mt19937& random) {
  const auto pick = [&](int n) { return static_cast<int>(random() % n); };
  ToyGroup::Rank& mine = group.rank(rank);
  if (pick(2) == 0) EXPECT_TRUE(group.is_same(rank, 2, toy_input()));
  const int steps = 1 + pick(4);
  const int turn = pick(steps + 1);
  const int ends = pick(4) == 0 ? pick(steps) : steps;
  for (int step = 0; step < steps; ++step) {
    const size_t dit = step < turn ? 0 : 1;
    if (step == ends) {
      EXPECT_EQ(mine.module->abandon(dit, static_cast<size_t>(pick(3))),
                absl::OkStatus());
      break;
    }
    if (step == steps - 1 && pick(2) == 0) mine.backend->begin_last_step();
    EXPECT_TRUE(group.is_same(rank, dit, toy_input()));
  }
  mine.backend->end_generation();
}

TEST(DistributedLayerwiseTest, RandomWavesOfRandomRequests) {
  constexpr int kRanks = 4;
  constexpr int kWaves = 200;
  ToyGroupOptions options = options_for(kRanks);
  options.toy.dits = 2;
  options.toy.encoders = 1;
  options.toy.blocks = 3;
  options.toy.counts = false;
  std::atomic<uint32_t> calls{0};
  const CallFaults delays = [&calls](int /*rank*/, int64_t /*call*/) {
    std::minstd_rand random(++calls);
    CallFault fault;
    if (random() % 8 == 0) fault.delay = absl::Microseconds(random() % 500);
    return fault;
  };
  options.control_faults = delays;
  options.weight_faults = delays;
  ToyGroup group(options);
  ASSERT_THAT(group.enable(), Each(absl::OkStatus()));
  // Each round ends with an idle group, so that the next one is a wave at
  // least; who has two requests, or joins late, may make more.
  uint32_t round = 0;
  for (; group.waves() < kWaves && !testing::Test::HasFailure(); ++round) {
    run_ranks(kRanks, [&](int rank) {
      std::mt19937 random(round * kRanks + static_cast<uint32_t>(rank));
      for (auto requests = random() % 3; requests > 0; --requests) {
        run_random_request(group, rank, random);
      }
    });
  }
  EXPECT_THAT(group.violations(), IsEmpty());
  std::printf("%d waves of %u rounds on %d ranks\n",
              static_cast<int>(group.waves()), round, kRanks);
}

}  // namespace
}  // namespace ferry
