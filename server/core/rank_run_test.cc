#include "server/core/rank_run.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <thread>

#include "platform/base/testing/simulated_clock.h"
#include "server/core/errors.h"
#include "server/core/testing/fake_rank.h"
#include "server/core/testing/job_end.h"

namespace ferry {
namespace {

class RankRunTest : public testing::Test {
 protected:
  RankRunTest() { EXPECT_TRUE(job_.start()); }

  static Job::Options options() {
    Job::Options options;
    options.name = "jobs/1";
    options.effective_spec.set_seed(5);
    return options;
  }

  SimulatedClock clock_;
  Job job_{options(), clock_};
  FakeRank rank_;
};

TEST_F(RankRunTest, ForwardsRequestEventsAndSummary) {
  rank_.emit([](RankEvents& events) {
    v1::Progress progress;
    progress.set_step(2);
    events.on_progress(progress);
    v1::Preview preview;
    preview.set_step(3);
    events.on_preview(preview);
    v1::OutputChunk chunk;
    chunk.set_data("png");
    events.on_output_chunk(chunk);
  });
  rank_.end_run(absl::OkStatus());
  const auto summary = run_on_rank(job_, rank_);
  ASSERT_TRUE(summary.ok());
  EXPECT_EQ(summary->timings().denoise().seconds(), 3);
  EXPECT_EQ(rank_.wait_for_run(1).job(), "jobs/1");
  EXPECT_EQ(rank_.wait_for_run(1).spec().seed(), 5);
  EXPECT_FALSE(job_.is_finished());
  job_.finish(absl::OkStatus());
  const auto events = read_to_end(job_);
  ASSERT_EQ(events.size(), 6u);
  EXPECT_EQ(events[2].progress().step(), 2);
  EXPECT_EQ(events[3].preview().step(), 3);
  EXPECT_EQ(events[4].output_chunk().data(), "png");
}

TEST_F(RankRunTest, ACancelBeforeTheRunNeverReachesTheRank) {
  job_.request_cancel(job_cancelled());
  EXPECT_FALSE(run_on_rank(job_, rank_).ok());
  EXPECT_EQ(rank_.runs(), 0u);
}

TEST_F(RankRunTest, ACancelEndsTheRun) {
  std::thread canceller([&] {
    rank_.wait_for_run(1);
    job_.request_cancel(job_cancelled());
  });
  EXPECT_TRUE(absl::IsCancelled(run_on_rank(job_, rank_).status()));
  canceller.join();
}

TEST_F(RankRunTest, ACancelAfterTheRunIsLost) {
  rank_.end_run(absl::OkStatus());
  ASSERT_TRUE(run_on_rank(job_, rank_).ok());
  const int before = rank_.cancels();
  job_.request_cancel(job_cancelled());
  EXPECT_EQ(rank_.cancels(), before) << "it would end the next job";
}

TEST_F(RankRunTest, ACancelThatTheRankMissedIsRepeated) {
  // The request comes on the run's own thread, and the rank hears only the
  // second call.
  int cancels = 0;
  rank_.emit([&](RankEvents& events) {
    rank_.set_deaf();
    job_.request_cancel(job_cancelled());
    events.on_progress(v1::Progress());
    cancels = rank_.cancels();
  });
  rank_.end_run(absl::OkStatus());
  EXPECT_TRUE(run_on_rank(job_, rank_).ok());
  EXPECT_EQ(cancels, 2);
}

using RankRunDeathTest = RankRunTest;

TEST_F(RankRunDeathTest, RunsOnlyWhatWasStarted) {
  ASSERT_TRUE(job_.finish(absl::CancelledError("told to")));
  EXPECT_DEATH((void)run_on_rank(job_, rank_), "v1::Job::STATE_RUNNING");
}

}  // namespace
}  // namespace ferry
