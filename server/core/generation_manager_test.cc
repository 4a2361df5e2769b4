#include "server/core/generation_manager.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "google/rpc/error_details.pb.h"
#include "platform/base/error_info.h"
#include "platform/base/testing/simulated_clock.h"
#include "server/core/errors.h"
#include "server/core/testing/fake_rank.h"
#include "server/core/testing/job_end.h"
#include "server/core/testing/test_pipeline.h"

namespace ferry {
namespace {

constexpr char kName[] = "pipelines/test";

std::string reason_of(const absl::Status& status) {
  return get_error_info(status).value_or(ErrorInfo{}).reason;
}

std::string reason_of(const v1::Job& job) {
  for (const google::protobuf::Any& detail : job.error().details()) {
    google::rpc::ErrorInfo info;
    if (detail.UnpackTo(&info)) return info.reason();
  }
  return "";
}

class GenerationManagerTest : public testing::Test {
 protected:
  GenerationManagerTest() {
    add_pipeline(kName);
    options_.max_queue_jobs = 3;
    options_.run_timeout = absl::Minutes(10);
  }

  void add_pipeline(const std::string& name) {
    directory_.add(name);
    directory_.update(name, [&](v1::Pipeline& pipeline) {
      pipeline = make_test_pipeline(name);
    });
  }

  void set_state(v1::Pipeline::State state) {
    directory_.update(
        kName, [&](v1::Pipeline& pipeline) { pipeline.set_state(state); });
  }

  void start() {
    manager_ =
        std::make_unique<GenerationManager>(options_, directory_, clock_);
  }

  std::shared_ptr<FakeRank> add_rank(const std::string& name = kName) {
    auto rank = std::make_shared<FakeRank>();
    ranks_.push_back(rank);
    manager_->add_rank(name, rank);
    return rank;
  }

  // Ends the manager while a rank may be about to run.
  void TearDown() override {
    for (const auto& rank : ranks_) rank->set_automatic();
    manager_.reset();
  }

  absl::StatusOr<std::shared_ptr<Job>> submit(
      int priority = 0, absl::Duration deadline = absl::InfiniteDuration()) {
    v1::GenerateRequest request = make_test_request();
    request.set_priority(priority);
    return manager_->submit(request, deadline);
  }

  // A square picture.
  std::shared_ptr<Job> submit_edge(int edge, int priority = 0) {
    v1::GenerateRequest request = make_test_request();
    request.set_priority(priority);
    request.mutable_spec()->set_height(edge);
    request.mutable_spec()->set_width(edge);
    return *manager_->submit(request, absl::InfiniteDuration());
  }

  // Two ranks that make each pass together and run large pictures.
  std::vector<std::shared_ptr<FakeRank>> start_busy_group() {
    options_.max_queue_jobs = 100;
    start();
    const std::vector<std::shared_ptr<FakeRank>> ranks = {add_rank(),
                                                          add_rank()};
    for (const auto& rank : ranks) {
      rank->set_makes_passes_with_others();
      submit_edge(kLarge);
    }
    for (const auto& rank : ranks) rank->wait_for_run(1);
    return ranks;
  }

  // Runs a picture of that edge on the only rank to its end, in that time.
  void measure(FakeRank& rank, int edge, absl::Duration time) {
    const size_t run = rank.runs() + 1;
    const auto job = submit_edge(edge);
    rank.wait_for_run(run);
    clock_.advance(time);
    rank.end_run(absl::OkStatus());
    read_to_end(*job);
  }

  // Moves the clock and does what the timer does then.
  void advance(absl::Duration duration) {
    clock_.advance(duration);
    manager_->expire();
  }

  static constexpr int kSmall = 64;
  static constexpr int kLarge = 256;

  SimulatedClock clock_;
  PipelineDirectory directory_;
  GenerationManager::Options options_;
  std::vector<std::shared_ptr<FakeRank>> ranks_;
  std::unique_ptr<GenerationManager> manager_;
};

TEST_F(GenerationManagerTest, RunsAJobToItsEnd) {
  start();
  const auto rank = add_rank();
  const auto job = submit();
  ASSERT_TRUE(job.ok()) << job.status();
  const auto request = rank->wait_for_run(1);
  EXPECT_EQ(request.job(), (*job)->name());
  EXPECT_EQ(request.spec().num_inference_steps(), 20);
  EXPECT_TRUE(request.spec().has_seed());
  EXPECT_EQ(manager_->running(), 1);
  EXPECT_EQ(manager_->queued(), 0);
  rank->emit([](RankEvents& events) {
    v1::OutputChunk chunk;
    chunk.set_data("png");
    chunk.mutable_final_info()->set_size_bytes(3);
    events.on_output_chunk(chunk);
  });
  rank->end_run(absl::OkStatus());
  const v1::Job end = read_to_end(**job).back().job();
  EXPECT_EQ(end.state(), v1::Job::STATE_SUCCEEDED);
  EXPECT_EQ(end.outputs(0).size_bytes(), 3);
  EXPECT_EQ(end.timings().denoise().seconds(), 3);
  EXPECT_EQ(directory_.find(kName)->offload().total_h2d_bytes(), 1000);
  EXPECT_EQ(manager_->running(), 0);
  EXPECT_EQ((*manager_->find(end.name()))->state(), v1::Job::STATE_SUCCEEDED);
}

TEST_F(GenerationManagerTest, RunsByPriority) {
  start();
  const auto low = submit(0);
  const auto high = submit(9);
  const auto middle = submit(5);
  const auto rank = add_rank();
  rank->set_automatic();
  EXPECT_EQ(rank->wait_for_run(1).job(), (*high)->name());
  EXPECT_EQ(rank->wait_for_run(2).job(), (*middle)->name());
  EXPECT_EQ(rank->wait_for_run(3).job(), (*low)->name());
}

TEST_F(GenerationManagerTest, RanksRunAtTheSameTime) {
  start();
  const auto first = add_rank();
  const auto second = add_rank();
  const auto job1 = submit();
  const auto job2 = submit();
  first->wait_for_run(1);
  second->wait_for_run(1);
  EXPECT_EQ(manager_->running(), 2);
  first->end_run(absl::OkStatus());
  second->end_run(absl::OkStatus());
  read_to_end(**job1);
  read_to_end(**job2);
}

TEST_F(GenerationManagerTest, FreeRanksTakeByPriorityAndArrival) {
  start();
  const auto first = add_rank();
  const auto second = add_rank();
  const auto running1 = submit();
  const auto running2 = submit();
  first->wait_for_run(1);
  second->wait_for_run(1);
  const auto low = submit(0);
  const auto later = submit(0);
  const auto high = submit(9);
  second->end_run(absl::OkStatus());
  EXPECT_EQ(second->wait_for_run(2).job(), (*high)->name());
  first->end_run(absl::OkStatus());
  EXPECT_EQ(first->wait_for_run(2).job(), (*low)->name());
  second->end_run(absl::OkStatus());
  EXPECT_EQ(second->wait_for_run(3).job(), (*later)->name());
  const auto uses = manager_->rank_uses(kName);
  ASSERT_EQ(uses.size(), 2u);
  EXPECT_EQ(uses[0].job, (*low)->name());
  EXPECT_EQ(uses[1].job, (*later)->name());
}

TEST_F(GenerationManagerTest, RanksOfOnePassTakeWhatIsLikeTheLastOne) {
  const auto ranks = start_busy_group();
  const auto small = submit_edge(kSmall);
  const auto large = submit_edge(kLarge);
  const auto small2 = submit_edge(kSmall);
  ranks[0]->end_run(absl::OkStatus());
  EXPECT_EQ(ranks[0]->wait_for_run(2).job(), large->name());
  ranks[0]->end_run(absl::OkStatus());
  EXPECT_EQ(ranks[0]->wait_for_run(3).job(), small->name());
  // Now small ones, though a large one runs too.
  submit_edge(kLarge);
  ranks[0]->end_run(absl::OkStatus());
  EXPECT_EQ(ranks[0]->wait_for_run(4).job(), small2->name());
}

TEST_F(GenerationManagerTest, LikenessNeverGoesBeforePriority) {
  const auto ranks = start_busy_group();
  const auto large = submit_edge(kLarge);
  const auto small = submit_edge(kSmall, 1);
  ranks[0]->end_run(absl::OkStatus());
  EXPECT_EQ(ranks[0]->wait_for_run(2).job(), small->name());
  ranks[0]->end_run(absl::OkStatus());
  EXPECT_EQ(ranks[0]->wait_for_run(3).job(), large->name());
}

TEST_F(GenerationManagerTest, NobodyIsOvertakenForEver) {
  const auto ranks = start_busy_group();
  const auto small = submit_edge(kSmall);
  for (int i = 0; i < 10; ++i) submit_edge(kLarge);
  // Twice for each rank.
  for (size_t run = 2; run <= 5; ++run) {
    ranks[0]->end_run(absl::OkStatus());
    EXPECT_EQ(ranks[0]->wait_for_run(run).spec().height(), kLarge);
    EXPECT_EQ(small->state(), v1::Job::STATE_QUEUED);
  }
  ranks[0]->end_run(absl::OkStatus());
  EXPECT_EQ(ranks[0]->wait_for_run(6).job(), small->name());
}

TEST_F(GenerationManagerTest, WhatStartsAloneIsTheFirst) {
  const auto ranks = start_busy_group();
  const auto small = submit_edge(kSmall);
  const auto large = submit_edge(kLarge);
  for (const auto& rank : ranks) {
    rank->end_run(worker_lost(kName, "killed by signal 9"));
  }
  for (const auto& rank : ranks) manager_->remove_rank(kName, rank);
  const auto next = add_rank();
  next->set_makes_passes_with_others();
  EXPECT_EQ(next->wait_for_run(1).job(), small->name());
  next->end_run(absl::OkStatus());
  EXPECT_EQ(next->wait_for_run(2).job(), large->name());
}

TEST_F(GenerationManagerTest, RanksThatPaceThemselvesGoByArrival) {
  start();
  const auto first = add_rank();
  const auto second = add_rank();
  submit_edge(kLarge);
  submit_edge(kLarge);
  first->wait_for_run(1);
  second->wait_for_run(1);
  const auto small = submit_edge(kSmall);
  submit_edge(kLarge);
  first->end_run(absl::OkStatus());
  EXPECT_EQ(first->wait_for_run(2).job(), small->name());
}

TEST_F(GenerationManagerTest, TellsWhatAPassOfARunningJobTakes) {
  start();
  const auto rank = add_rank();
  measure(*rank, kLarge, absl::Seconds(8));
  EXPECT_FALSE(manager_->rank_uses(kName)[0].pass_time.has_value());
  const auto same = submit_edge(kLarge);
  rank->wait_for_run(2);
  // Three seconds for twenty steps.
  EXPECT_EQ(manager_->rank_uses(kName)[0].pass_time, absl::Milliseconds(150));
  rank->end_run(absl::OkStatus());
  read_to_end(*same);
  submit_edge(kSmall);
  rank->wait_for_run(3);
  EXPECT_FALSE(manager_->rank_uses(kName)[0].pass_time.has_value());
}

TEST_F(GenerationManagerTest, WhatALargerPassHasSlowedTellsNothing) {
  const auto ranks = start_busy_group();
  const auto small = submit_edge(kSmall);
  ranks[0]->end_run(absl::OkStatus());
  ranks[0]->wait_for_run(2);
  ranks[0]->end_run(absl::OkStatus());
  read_to_end(*small);
  submit_edge(kSmall);
  ranks[0]->wait_for_run(3);
  ranks[1]->end_run(absl::OkStatus());
  submit_edge(kLarge);
  ranks[1]->wait_for_run(2);
  const auto uses = manager_->rank_uses(kName);
  EXPECT_FALSE(uses[0].pass_time.has_value());
  EXPECT_EQ(uses[1].pass_time, absl::Milliseconds(150));
}

TEST_F(GenerationManagerTest, ReportsOfAllRanksComeToOne) {
  start();
  const auto first = add_rank();
  const auto second = add_rank();
  const auto job1 = submit();
  const auto job2 = submit();
  first->wait_for_run(1);
  second->wait_for_run(1);
  second->end_run(absl::OkStatus());
  first->end_run(absl::OkStatus());
  read_to_end(**job1);
  read_to_end(**job2);
  EXPECT_EQ(directory_.find(kName)->offload().total_h2d_bytes(), 2000);
}

TEST_F(GenerationManagerTest, PipelinesDoNotShareRanks) {
  add_pipeline("pipelines/other");
  start();
  const auto job = submit();
  const auto other = add_rank("pipelines/other");
  other->set_automatic();
  const auto theirs = manager_->submit(make_test_request("pipelines/other"),
                                       absl::InfiniteDuration());
  read_to_end(**theirs);
  EXPECT_EQ((*job)->state(), v1::Job::STATE_QUEUED);
  EXPECT_EQ(other->runs(), 1u);
}

TEST_F(GenerationManagerTest, SaysWhyAPipelineTakesNothing) {
  start();
  EXPECT_EQ(reason_of(manager_
                          ->submit(make_test_request("pipelines/no"),
                                   absl::InfiniteDuration())
                          .status()),
            "PIPELINE_NOT_FOUND");
  directory_.add("pipelines/new");
  const auto loading = manager_->submit(make_test_request("pipelines/new"),
                                        absl::InfiniteDuration());
  EXPECT_EQ(reason_of(loading.status()), "PIPELINE_LOADING");
  EXPECT_TRUE(loading.status()
                  .GetPayload("type.googleapis.com/google.rpc.RetryInfo")
                  .has_value());
  set_state(v1::Pipeline::STATE_RESTARTING);
  EXPECT_EQ(reason_of(submit().status()), "PIPELINE_LOADING");
  EXPECT_TRUE(absl::IsUnavailable(submit().status()));
  set_state(v1::Pipeline::STATE_FAILED);
  EXPECT_EQ(reason_of(submit().status()), "PIPELINE_FAILED");
  EXPECT_TRUE(absl::IsFailedPrecondition(submit().status()));
}

TEST_F(GenerationManagerTest, AWrongRequestIsWrongInAnyState) {
  start();
  set_state(v1::Pipeline::STATE_RESTARTING);
  v1::GenerateRequest request = make_test_request();
  request.mutable_spec()->set_height(-1);
  EXPECT_EQ(
      reason_of(manager_->submit(request, absl::InfiniteDuration()).status()),
      "INVALID_FIELD");
}

TEST_F(GenerationManagerTest, ValidatesOnly) {
  start();
  v1::GenerateRequest request = make_test_request();
  request.set_validate_only(true);
  const auto job = manager_->submit(request, absl::InfiniteDuration());
  ASSERT_TRUE(job.ok());
  EXPECT_EQ((*job)->state(), v1::Job::STATE_UNSPECIFIED);
  EXPECT_EQ((*job)->effective_spec().height(), 128);
  EXPECT_EQ(manager_->queued(), 0);
  EXPECT_EQ(manager_->list({})->jobs_size(), 0);
}

TEST_F(GenerationManagerTest, AdmitsExactlyTheQueueUnderFlood) {
  for (const int limit : {0, 1, 7}) {
    options_.max_queue_jobs = limit;
    start();
    const auto rank = add_rank();
    std::atomic<int> admitted{0};
    std::atomic<int> refused{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < 16; ++i) {
      threads.emplace_back([&] {
        for (int n = 0; n < 4; ++n) {
          const auto job = submit();
          if (job.ok()) {
            ++admitted;
          } else if (reason_of(job.status()) == "QUEUE_FULL") {
            ++refused;
          }
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    // One runs, or is about to.
    EXPECT_EQ(admitted, limit + 1);
    EXPECT_EQ(refused, 64 - limit - 1);
    rank->set_automatic();
    manager_.reset();
  }
}

TEST_F(GenerationManagerTest, AFullQueueSaysWhenToRetry) {
  options_.max_queue_jobs = 0;
  start();
  const absl::Status status = submit().status();
  EXPECT_TRUE(absl::IsResourceExhausted(status));
  const auto payload =
      status.GetPayload("type.googleapis.com/google.rpc.RetryInfo");
  ASSERT_TRUE(payload.has_value());
  google::rpc::RetryInfo retry;
  ASSERT_TRUE(retry.ParseFromString(std::string(*payload)));
  EXPECT_GE(retry.retry_delay().seconds(), 1);
  EXPECT_TRUE(status.GetPayload("type.googleapis.com/google.rpc.QuotaFailure")
                  .has_value());
}

TEST_F(GenerationManagerTest, ARankIsFreeWhenItsClientSeesTheEnd) {
  options_.max_queue_jobs = 0;
  start();
  const auto rank = add_rank();
  rank->set_automatic();
  for (int i = 0; i < 200; ++i) {
    const auto job = submit();
    ASSERT_TRUE(job.ok()) << i << ": " << job.status();
    read_to_end(**job);
  }
}

TEST_F(GenerationManagerTest, BytesAreBounded) {
  options_.max_queue_bytes = 1000;
  start();
  v1::GenerateRequest request = make_test_request();
  request.mutable_spec()->set_prompt(std::string(600, 'x'));
  EXPECT_TRUE(manager_->submit(request, absl::InfiniteDuration()).ok());
  const auto second = manager_->submit(request, absl::InfiniteDuration());
  EXPECT_EQ(get_error_info(second.status())->metadata.at("limit"),
            "max_queue_bytes");
}

TEST_F(GenerationManagerTest, CancelEndsAQueuedJobAtOnce) {
  start();
  const auto first = submit();
  const auto second = submit();
  const auto cancelled = manager_->cancel((*first)->name());
  ASSERT_TRUE(cancelled.ok());
  EXPECT_EQ(cancelled->state(), v1::Job::STATE_CANCELLED);
  EXPECT_EQ(reason_of(*cancelled), "JOB_CANCELLED");
  EXPECT_EQ(manager_->queued(), 1);
  EXPECT_EQ(manager_->cancel((*first)->name())->end_time().nanos(),
            cancelled->end_time().nanos());
  EXPECT_EQ((*second)->state(), v1::Job::STATE_QUEUED);
  EXPECT_EQ(reason_of(manager_->cancel("jobs/none").status()), "JOB_NOT_FOUND");
}

TEST_F(GenerationManagerTest, ADisconnectEndsAQueuedJobAtOnce) {
  start();
  const auto job = submit();
  EXPECT_TRUE((*job)->request_cancel(client_cancelled()));
  EXPECT_EQ(reason_of((*job)->snapshot()), "CLIENT_CANCELLED");
  EXPECT_EQ(manager_->queued(), 0);
}

TEST_F(GenerationManagerTest, CancelEndsARunningJobAndOnlyThat) {
  start();
  const auto rank = add_rank();
  const auto first = submit();
  rank->wait_for_run(1);
  const auto second = submit();
  EXPECT_EQ(manager_->cancel((*first)->name())->name(), (*first)->name());
  EXPECT_EQ(reason_of(read_to_end(**first).back().job()), "JOB_CANCELLED");
  EXPECT_EQ(rank->wait_for_run(2).job(), (*second)->name());
  rank->end_run(absl::OkStatus());
  EXPECT_EQ(read_to_end(**second).back().job().state(),
            v1::Job::STATE_SUCCEEDED);
}

TEST_F(GenerationManagerTest, QueueTimeoutsAreKeptToTheMoment) {
  start();
  v1::GenerateRequest request = make_test_request();
  request.mutable_queue_timeout()->set_seconds(10);
  const auto soon = manager_->submit(request, absl::InfiniteDuration());
  const auto late = submit();
  advance(absl::Seconds(10) - absl::Nanoseconds(1));
  EXPECT_FALSE((*soon)->is_finished());
  advance(absl::Nanoseconds(1));
  EXPECT_EQ(reason_of((*soon)->snapshot()), "QUEUE_TIMEOUT");
  EXPECT_EQ((*soon)->state(), v1::Job::STATE_CANCELLED);
  EXPECT_FALSE((*late)->is_finished());
  EXPECT_EQ(manager_->queued(), 1);
  advance(absl::Seconds(290));
  EXPECT_EQ(reason_of((*late)->snapshot()), "QUEUE_TIMEOUT");
}

TEST_F(GenerationManagerTest, ADeadlineEndsQueuedAndRunningJobs) {
  start();
  const auto rank = add_rank();
  const absl::Duration deadline = clock_.monotonic() + absl::Seconds(5);
  const auto running = submit(0, deadline);
  rank->wait_for_run(1);
  const auto queued = submit(0, deadline);
  EXPECT_EQ(manager_->expire(), deadline);
  advance(absl::Seconds(5));
  EXPECT_EQ(reason_of((*queued)->snapshot()), "DEADLINE_EXCEEDED");
  const v1::Job end = read_to_end(**running).back().job();
  EXPECT_EQ(reason_of(end), "DEADLINE_EXCEEDED");
  EXPECT_EQ(end.state(), v1::Job::STATE_CANCELLED);
  EXPECT_EQ(rank->cancels(), 1);
}

TEST_F(GenerationManagerTest, RefusesDeadlinesThatHavePassed) {
  start();
  EXPECT_EQ(reason_of(submit(0, clock_.monotonic()).status()),
            "DEADLINE_EXCEEDED");
}

TEST_F(GenerationManagerTest, RunsEndAtTheRunTimeout) {
  start();
  const auto rank = add_rank();
  const auto job = submit();
  rank->wait_for_run(1);
  advance(absl::Minutes(10));
  EXPECT_EQ(reason_of(read_to_end(**job).back().job()), "RUN_TIMEOUT");
}

TEST_F(GenerationManagerTest, RefusesDeadlinesThatCannotBeMet) {
  start();
  const auto rank = add_rank();
  const auto measured = submit();
  rank->wait_for_run(1);
  clock_.advance(absl::Seconds(8));
  rank->end_run(absl::OkStatus());
  read_to_end(**measured);

  const absl::Duration now = clock_.monotonic();
  const auto refused = submit(0, now + absl::Seconds(7));
  EXPECT_TRUE(absl::IsDeadlineExceeded(refused.status()));
  EXPECT_EQ(reason_of(refused.status()), "DEADLINE_UNREACHABLE");
  const auto fits = submit(0, now + absl::Seconds(9));
  ASSERT_TRUE(fits.ok()) << fits.status();
  rank->wait_for_run(2);
  const auto waiting = submit();
  // Another eight seconds wait ahead of it, unless it is more urgent.
  EXPECT_EQ(reason_of(submit(0, now + absl::Seconds(12)).status()),
            "DEADLINE_UNREACHABLE");
  EXPECT_TRUE(submit(1, now + absl::Seconds(12)).ok());
  rank->set_automatic();
}

// Two ranks run large pictures, and small ones wait, whose least time is known
// to be eight seconds too.
class DeadlineOfTwoRanksTest : public GenerationManagerTest {
 protected:
  static constexpr absl::Duration kRun = absl::Seconds(8);

  void start_busy(int waiting, bool together) {
    options_.max_queue_jobs = 100;
    start();
    first_ = add_rank();
    measure(*first_, kLarge, kRun);
    measure(*first_, kSmall, kRun);
    second_ = add_rank();
    submit_edge(kLarge);
    submit_edge(kLarge);
    first_->wait_for_run(3);
    second_->wait_for_run(1);
    clock_.advance(kRun);
    if (together) first_->set_makes_passes_with_others();
    for (int i = 0; i < waiting; ++i) submit_edge(kSmall);
  }

  bool is_refused(absl::Duration time) {
    v1::GenerateRequest request = make_test_request();
    request.mutable_spec()->set_height(kLarge);
    request.mutable_spec()->set_width(kLarge);
    last_ = manager_->submit(request, clock_.monotonic() + time);
    return reason_of(last_.status()) == "DEADLINE_UNREACHABLE";
  }

  std::shared_ptr<FakeRank> first_;
  std::shared_ptr<FakeRank> second_;
  // What was asked for last.
  absl::StatusOr<std::shared_ptr<Job>> last_;
};

TEST_F(DeadlineOfTwoRanksTest, OfTheRanksThatAreFreeSoonOneMayBeLeft) {
  start_busy(1, false);
  EXPECT_TRUE(is_refused(kRun - absl::Nanoseconds(1)));
  ASSERT_FALSE(is_refused(kRun));
  // And so it comes.
  first_->end_run(absl::OkStatus());
  second_->end_run(absl::OkStatus());
  first_->wait_for_run(4);
  second_->wait_for_run(2);
  clock_.advance(kRun - absl::Nanoseconds(1));
  first_->end_run(absl::OkStatus());
  second_->end_run(absl::OkStatus());
  EXPECT_EQ(read_to_end(**last_).back().job().state(),
            v1::Job::STATE_SUCCEEDED);
}

TEST_F(DeadlineOfTwoRanksTest, WhatWaitsOnAllRanksIsCounted) {
  start_busy(3, false);
  EXPECT_TRUE(is_refused(2 * kRun - absl::Nanoseconds(1)));
  EXPECT_FALSE(is_refused(2 * kRun));
}

TEST_F(DeadlineOfTwoRanksTest, WhatMayBeOvertakenIsNot) {
  start_busy(3, true);
  EXPECT_TRUE(is_refused(kRun - absl::Nanoseconds(1)));
  ASSERT_FALSE(is_refused(kRun));
  // And so it comes.
  const std::string name = (*last_)->name();
  first_->end_run(absl::OkStatus());
  EXPECT_EQ(first_->wait_for_run(4).job(), name);
  // Those that have been overtaken as often as they may go first.
  for (size_t run = 5; run < 8; ++run) {
    submit_edge(kLarge);
    clock_.advance(kRun - absl::Nanoseconds(1));
    first_->end_run(absl::OkStatus());
    first_->wait_for_run(run);
  }
  EXPECT_TRUE(is_refused(2 * kRun - absl::Seconds(1)));
  EXPECT_FALSE(is_refused(2 * kRun));
}

TEST_F(GenerationManagerTest, ALostRankFailsItsJobAndTakesNoOther) {
  start();
  const auto rank = add_rank();
  const auto running = submit();
  rank->wait_for_run(1);
  const auto queued = submit();
  rank->end_run(worker_lost(kName, "killed by signal 9"));
  const v1::Job end = read_to_end(**running).back().job();
  EXPECT_EQ(reason_of(end), "WORKER_LOST");
  EXPECT_EQ(end.state(), v1::Job::STATE_FAILED);
  EXPECT_EQ(end.error().code(), 14);
  manager_->remove_rank(kName, rank);
  EXPECT_EQ(rank->runs(), 1u);
  EXPECT_EQ((*queued)->state(), v1::Job::STATE_QUEUED);
  const auto next = add_rank();
  next->end_run(absl::OkStatus());
  EXPECT_EQ(read_to_end(**queued).back().job().state(),
            v1::Job::STATE_SUCCEEDED);
}

TEST_F(GenerationManagerTest, ErrorsOfARankEndTheJobAsTheyAre) {
  start();
  const auto rank = add_rank();
  rank->end_run(make_error(absl::StatusCode::kInternal, "step 3 gave NaN",
                           {"NON_FINITE_OUTPUT", {{"step", "3"}}}));
  const auto failed = submit();
  EXPECT_EQ(reason_of(read_to_end(**failed).back().job()), "NON_FINITE_OUTPUT");
  rank->end_run(absl::OkStatus());
  const auto next = submit();
  EXPECT_EQ(read_to_end(**next).back().job().state(), v1::Job::STATE_SUCCEEDED);
}

TEST_F(GenerationManagerTest, FailedPipelinesKeepNoJobs) {
  start();
  const auto job = submit();
  set_state(v1::Pipeline::STATE_FAILED);
  manager_->fail_queued(kName, pipeline_failed(kName, "restarts are spent"));
  EXPECT_EQ(reason_of((*job)->snapshot()), "PIPELINE_FAILED");
  EXPECT_EQ((*job)->state(), v1::Job::STATE_FAILED);
  EXPECT_EQ(manager_->queued(), 0);
}

TEST_F(GenerationManagerTest, DrainsRunningJobsAndFailsQueuedOnes) {
  start();
  const auto rank = add_rank();
  const auto running = submit();
  rank->wait_for_run(1);
  const auto queued = submit();
  manager_->begin_drain();
  EXPECT_EQ(reason_of((*queued)->snapshot()), "SERVER_DRAINING");
  EXPECT_EQ((*queued)->state(), v1::Job::STATE_CANCELLED);
  EXPECT_EQ(reason_of(submit().status()), "SERVER_DRAINING");
  EXPECT_TRUE(absl::IsUnavailable(submit().status()));
  EXPECT_EQ(manager_->running(), 1);
  rank->end_run(absl::OkStatus());
  read_to_end(**running);
  EXPECT_EQ(manager_->running(), 0);
  EXPECT_EQ((*running)->state(), v1::Job::STATE_SUCCEEDED);
}

TEST_F(GenerationManagerTest, APipelineUnloadedByADrainIsNotCalledFailed) {
  start();
  manager_->begin_drain();
  directory_.update(kName, [](v1::Pipeline& pipeline) {
    pipeline.set_state(v1::Pipeline::STATE_UNLOADED);
  });
  EXPECT_EQ(reason_of(submit().status()), "SERVER_DRAINING");
}

TEST_F(GenerationManagerTest, CancelAllEndsWhatRuns) {
  start();
  const auto rank = add_rank();
  const auto job = submit();
  rank->wait_for_run(1);
  manager_->cancel_all(server_draining(absl::Seconds(1)));
  EXPECT_EQ(reason_of(read_to_end(**job).back().job()), "SERVER_DRAINING");
}

TEST_F(GenerationManagerTest, OutputsGoWithTheStream) {
  start();
  const auto rank = add_rank();
  auto job = submit();
  const std::string name = (*job)->name();
  rank->emit([](RankEvents& events) {
    v1::OutputChunk chunk;
    chunk.set_data(std::string(1000, 'x'));
    events.on_output_chunk(chunk);
  });
  rank->end_run(absl::OkStatus());
  read_to_end(**job);
  const std::shared_ptr<Job> kept = *manager_->find(name);
  EXPECT_GT(read_to_end(*kept).size(), 0u);
  job = absl::CancelledError();
  EXPECT_EQ(read_to_end(*kept).size(), 0u);
  EXPECT_EQ(kept->state(), v1::Job::STATE_SUCCEEDED);
}

TEST_F(GenerationManagerTest, EndsRunningJobsWhenItIsDestroyed) {
  start();
  const auto rank = add_rank();
  const auto running = submit();
  rank->wait_for_run(1);
  const auto queued = submit();
  manager_.reset();
  EXPECT_EQ(reason_of((*running)->snapshot()), "SERVER_DRAINING");
  EXPECT_EQ(reason_of((*queued)->snapshot()), "SERVER_DRAINING");
}

TEST_F(GenerationManagerTest, SurvivesCancelsAtAnyMoment) {
  options_.max_queue_jobs = 1000;
  start();
  const auto rank1 = add_rank();
  const auto rank2 = add_rank();
  rank1->set_automatic();
  rank2->set_automatic();
  std::atomic<int> ended{0};
  std::vector<std::thread> clients;
  for (int i = 0; i < 4; ++i) {
    clients.emplace_back([&, i] {
      for (int n = 0; n < 100; ++n) {
        const auto job = submit(i);
        if (!job.ok()) continue;
        if (n % 2 == 0) manager_->cancel((*job)->name()).IgnoreError();
        if (n % 3 == 0) (*job)->request_cancel(client_cancelled());
        read_to_end(**job);
        if ((*job)->is_finished()) ++ended;
      }
    });
  }
  std::thread timer([&] {
    for (int n = 0; n < 100; ++n) advance(absl::Milliseconds(1));
  });
  for (std::thread& client : clients) client.join();
  timer.join();
  EXPECT_EQ(ended, 400);
  EXPECT_EQ(manager_->queued(), 0);
  EXPECT_EQ(manager_->running(), 0);
  const auto last = submit();
  EXPECT_EQ(read_to_end(**last).back().job().state(), v1::Job::STATE_SUCCEEDED);
}

TEST(GenerationManagerTimerTest, TheTimerNoticesByItself) {
  PipelineDirectory directory;
  directory.add(kName);
  directory.update(kName, [](v1::Pipeline& pipeline) {
    pipeline = make_test_pipeline(kName);
  });
  GenerationManager manager({}, directory, Clock::real());
  v1::GenerateRequest request = make_test_request();
  request.mutable_queue_timeout()->set_nanos(20000000);
  const auto job = manager.submit(request, absl::InfiniteDuration());
  EXPECT_EQ(reason_of(read_to_end(**job).back().job()), "QUEUE_TIMEOUT");
}

TEST_F(GenerationManagerTest, EndsTheProcessAtABrokenContractDeathTest) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  start();
  const absl::Status lost = worker_lost(kName, "lost");
  EXPECT_DEATH(manager_->add_rank(kName, nullptr), "rank != nullptr");
  EXPECT_DEATH(add_rank("pipelines/no"), "directory_.find");
  EXPECT_DEATH(manager_->fail_queued("pipelines/no", lost), "has_value");
  EXPECT_DEATH(manager_->fail_queued(kName, lost), "!check_state");
}

}  // namespace
}  // namespace ferry
