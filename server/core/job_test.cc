#include "server/core/job.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "platform/base/error_info.h"
#include "platform/base/testing/simulated_clock.h"
#include "server/core/errors.h"
#include "server/core/testing/job_end.h"

namespace ferry {
namespace {

class JobTest : public testing::Test {
 protected:
  static Job::Options options() {
    Job::Options options;
    options.name = "jobs/1";
    options.pipeline = "pipelines/test";
    options.effective_spec.set_prompt("a red circle");
    options.effective_spec.set_seed(7);
    options.labels["user"] = "me";
    return options;
  }

  static v1::Progress step(int step, int total) {
    v1::Progress progress;
    progress.set_stage(v1::Progress::STAGE_DENOISE);
    progress.set_step(step);
    progress.set_total_steps(total);
    return progress;
  }

  static v1::OutputChunk chunk(int64_t offset, size_t size, bool last = false) {
    v1::OutputChunk chunk;
    chunk.set_offset(offset);
    chunk.set_data(std::string(size, 'x'));
    if (last) chunk.mutable_final_info()->set_size_bytes(offset + size);
    return chunk;
  }

  std::vector<v1::JobEvent> read(int64_t* cursor) {
    Job::Events shared;
    job_.read_events(cursor, absl::ZeroDuration(), &shared, 1 << 30);
    std::vector<v1::JobEvent> events;
    for (const auto& event : shared) events.push_back(*event);
    return events;
  }

  SimulatedClock clock_;
  Job job_{options(), clock_};
};

TEST_F(JobTest, LivesFromQueuedToSucceeded) {
  EXPECT_EQ(job_.state(), v1::Job::STATE_QUEUED);
  EXPECT_FALSE(job_.finish(absl::OkStatus())) << "it never ran";
  clock_.advance(absl::Seconds(2));
  EXPECT_TRUE(job_.start());
  EXPECT_FALSE(job_.start());
  EXPECT_EQ(job_.state(), v1::Job::STATE_RUNNING);
  clock_.advance(absl::Seconds(3));
  v1::Timings timings;
  timings.mutable_denoise()->set_seconds(1);
  job_.set_summary(timings, true);
  EXPECT_TRUE(job_.finish(absl::OkStatus()));
  EXPECT_TRUE(job_.is_finished());

  const v1::Job job = job_.snapshot();
  EXPECT_EQ(job.name(), "jobs/1");
  EXPECT_EQ(job.pipeline(), "pipelines/test");
  EXPECT_EQ(job.effective_spec().seed(), 7);
  EXPECT_EQ(job.state(), v1::Job::STATE_SUCCEEDED);
  EXPECT_FALSE(job.has_error());
  EXPECT_EQ(job.labels().at("user"), "me");
  EXPECT_EQ(job.timings().queue().seconds(), 2);
  EXPECT_EQ(job.timings().denoise().seconds(), 1);
  EXPECT_EQ(job.timings().total().seconds(), 5);
  EXPECT_EQ(job.end_time().seconds() - job.create_time().seconds(), 5);
  EXPECT_EQ(job.start_time().seconds() - job.create_time().seconds(), 2);
  EXPECT_EQ(job.progress().fraction(), 1);
  EXPECT_TRUE(job.prompt_truncated());
  EXPECT_FALSE(job_.summary().has_effective_spec());
}

TEST_F(JobTest, TheFirstEndCounts) {
  EXPECT_TRUE(job_.finish(job_cancelled()));
  EXPECT_FALSE(job_.finish(internal_error("late")));
  EXPECT_FALSE(job_.start());
  EXPECT_FALSE(job_.request_cancel(client_cancelled()));
  EXPECT_EQ(job_.snapshot().error().code(), 1);
  EXPECT_TRUE(job_.cancel_error().ok());
}

TEST_F(JobTest, TheErrorSaysWhetherItWasCancelledOrFailed) {
  const auto state_after = [&](const absl::Status& error) {
    Job job(options(), clock_);
    job.start();
    job.finish(error);
    return job.state();
  };
  EXPECT_EQ(state_after(client_cancelled()), v1::Job::STATE_CANCELLED);
  EXPECT_EQ(state_after(job_cancelled()), v1::Job::STATE_CANCELLED);
  EXPECT_EQ(state_after(deadline_exceeded()), v1::Job::STATE_CANCELLED);
  EXPECT_EQ(state_after(queue_timeout(absl::Seconds(1))),
            v1::Job::STATE_CANCELLED);
  EXPECT_EQ(state_after(server_draining(absl::Seconds(1))),
            v1::Job::STATE_CANCELLED);
  EXPECT_EQ(state_after(worker_lost("pipelines/test", "killed")),
            v1::Job::STATE_FAILED);
  EXPECT_EQ(state_after(internal_error("bug")), v1::Job::STATE_FAILED);
  EXPECT_EQ(state_after(absl::UnavailableError("x")), v1::Job::STATE_FAILED);
}

TEST_F(JobTest, ACancelReachesTheHolderOnce) {
  int calls = 0;
  job_.set_cancel_callback([&] { ++calls; });
  EXPECT_TRUE(job_.request_cancel(job_cancelled()));
  EXPECT_TRUE(job_.request_cancel(deadline_exceeded()));
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(get_error_info(job_.cancel_error())->reason, "JOB_CANCELLED");
  EXPECT_FALSE(job_.start()) << "it was asked to end";
}

TEST_F(JobTest, ACancelReachesALaterHolderAtOnce) {
  job_.start();
  job_.request_cancel(job_cancelled());
  bool called = false;
  job_.set_cancel_callback([&] { called = true; });
  EXPECT_TRUE(called);
}

TEST_F(JobTest, DropsTheCallbackWhenItEnds) {
  const auto held = std::make_shared<int>(1);
  job_.set_cancel_callback([held] {});
  EXPECT_EQ(held.use_count(), 2);
  job_.start();
  job_.finish(absl::OkStatus());
  EXPECT_EQ(held.use_count(), 1);
}

TEST_F(JobTest, NumbersItsEventsFromOne) {
  job_.set_queue_position(2);
  job_.set_queue_position(2);
  job_.set_queue_position(0);
  job_.start();
  job_.add_progress(step(1, 4));
  job_.add_output_chunk(chunk(0, 10, true));
  job_.finish(absl::OkStatus());
  const std::vector<v1::JobEvent> events = read_to_end(job_);
  ASSERT_EQ(events.size(), 7u);
  for (size_t i = 0; i < events.size(); ++i) {
    EXPECT_EQ(events[i].sequence(), static_cast<int64_t>(i + 1));
  }
  EXPECT_EQ(events[0].job().state(), v1::Job::STATE_QUEUED);
  EXPECT_EQ(events[1].progress().queue_position(), 2);
  EXPECT_EQ(events[2].progress().queue_position(), 0);
  EXPECT_EQ(events[3].job().state(), v1::Job::STATE_RUNNING);
  EXPECT_EQ(events[4].progress().step(), 1);
  EXPECT_EQ(events[5].output_chunk().data().size(), 10u);
  EXPECT_EQ(events[6].job().state(), v1::Job::STATE_SUCCEEDED);
  ASSERT_EQ(events[6].job().outputs_size(), 1);
  EXPECT_EQ(events[6].job().outputs(0).size_bytes(), 10);
}

TEST_F(JobTest, ReportsShareAndTimeLeft) {
  job_.start();
  clock_.advance(absl::Seconds(10));
  job_.add_progress(step(50, 100));
  v1::Progress progress = job_.snapshot().progress();
  EXPECT_GT(progress.fraction(), 0.4);
  EXPECT_LT(progress.fraction(), 0.6);
  EXPECT_GE(progress.eta().seconds(), 8);
  EXPECT_LE(progress.eta().seconds(), 13);
  const double before = progress.fraction();
  job_.add_progress(step(1, 100));
  EXPECT_EQ(job_.snapshot().progress().fraction(), before) << "it fell";
  v1::Progress decode;
  decode.set_stage(v1::Progress::STAGE_DECODE);
  job_.add_progress(decode);
  EXPECT_GT(job_.snapshot().progress().fraction(), 0.9);
  EXPECT_LT(job_.snapshot().progress().fraction(), 1);
}

TEST_F(JobTest, NonsenseProgressStaysInBounds) {
  job_.start();
  job_.add_progress(step(5, 0));
  job_.add_progress(step(500, 4));
  job_.add_progress(step(-5, 4));
  const double fraction = job_.snapshot().progress().fraction();
  EXPECT_GE(fraction, 0);
  EXPECT_LT(fraction, 1);
}

TEST_F(JobTest, KeepsTheNewestProgressAndEveryChunk) {
  job_.start();
  for (int i = 1; i <= 1000; ++i) {
    job_.add_progress(step(i, 1000));
    v1::Preview preview;
    preview.set_step(i);
    job_.add_preview(preview);
    job_.add_output_chunk(chunk(i - 1, 1));
  }
  int64_t cursor = 0;
  int chunks = 0;
  std::vector<int> steps;
  std::vector<int> previews;
  for (const v1::JobEvent& event : read(&cursor)) {
    if (event.has_output_chunk()) ++chunks;
    if (event.has_progress()) steps.push_back(event.progress().step());
    if (event.has_preview()) previews.push_back(event.preview().step());
  }
  EXPECT_EQ(chunks, 1000);
  ASSERT_EQ(steps.size(), static_cast<size_t>(Job::kKeptProgress));
  EXPECT_EQ(steps.front(), 1000 - Job::kKeptProgress + 1);
  EXPECT_EQ(steps.back(), 1000);
  ASSERT_EQ(previews.size(), static_cast<size_t>(Job::kKeptPreviews));
  EXPECT_EQ(previews.back(), 1000);
}

TEST_F(JobTest, ReadsInPiecesButAtLeastOneEvent) {
  job_.start();
  for (int i = 0; i < 4; ++i) job_.add_output_chunk(chunk(i * 1000, 1000));
  int64_t cursor = 2;
  Job::Events events;
  EXPECT_TRUE(job_.read_events(&cursor, absl::ZeroDuration(), &events, 1));
  EXPECT_EQ(events.size(), 1u);
  EXPECT_EQ(cursor, 3);
  EXPECT_TRUE(job_.read_events(&cursor, absl::ZeroDuration(), &events, 2500));
  EXPECT_EQ(events.size(), 3u);
  EXPECT_EQ(cursor, 5);
}

TEST_F(JobTest, ReadingEndsWhenTheLastEventWasRead) {
  Job::Events events;
  int64_t cursor = 1;
  EXPECT_TRUE(job_.read_events(&cursor, absl::ZeroDuration(), &events, 100));
  EXPECT_TRUE(events.empty());
  job_.finish(job_cancelled());
  EXPECT_TRUE(job_.read_events(&cursor, absl::ZeroDuration(), &events, 100));
  EXPECT_EQ(events.size(), 1u);
  EXPECT_FALSE(job_.read_events(&cursor, absl::ZeroDuration(), &events, 100));
}

TEST_F(JobTest, AReaderIsWokenByTheEvent) {
  std::thread writer([&] {
    job_.start();
    job_.finish(absl::OkStatus());
  });
  EXPECT_EQ(read_to_end(job_).back().job().state(), v1::Job::STATE_SUCCEEDED);
  writer.join();
}

TEST_F(JobTest, DroppedOutputsStayDropped) {
  job_.start();
  job_.add_output_chunk(chunk(0, 1000));
  job_.drop_outputs();
  job_.add_output_chunk(chunk(1000, 1000, true));
  int64_t cursor = 0;
  EXPECT_TRUE(read(&cursor).empty());
  job_.finish(absl::OkStatus());
  Job::Events events;
  EXPECT_FALSE(job_.read_events(&cursor, absl::ZeroDuration(), &events, 100));
  EXPECT_TRUE(events.empty());
  EXPECT_EQ(job_.snapshot().outputs_size(), 1) << "metadata stays";
}

TEST_F(JobTest, AFailedJobHasNoOutputs) {
  job_.start();
  job_.add_output_chunk(chunk(0, 10, true));
  job_.finish(internal_error("bug"));
  EXPECT_EQ(job_.snapshot().outputs_size(), 0);
}

TEST_F(JobTest, IgnoresWritersBeforeItRunsAndAfterItEnded) {
  job_.add_progress(step(1, 2));
  job_.add_output_chunk(chunk(0, 1));
  job_.start();
  job_.finish(absl::OkStatus());
  job_.add_progress(step(1, 2));
  job_.add_preview(v1::Preview());
  job_.set_queue_position(3);
  EXPECT_EQ(read_to_end(job_).size(), 3u);
}

TEST_F(JobTest, AValidatedOnlyJobIsItsOnlyEvent) {
  Job::Options only = options();
  only.validate_only = true;
  Job job(only, clock_);
  EXPECT_TRUE(job.is_finished());
  EXPECT_FALSE(job.start());
  const std::vector<v1::JobEvent> events = read_to_end(job);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].job().state(), v1::Job::STATE_UNSPECIFIED);
  EXPECT_EQ(events[0].job().effective_spec().seed(), 7);
}

TEST_F(JobTest, CancelRacesWithTheEnd) {
  for (int i = 0; i < 500; ++i) {
    Job job(options(), clock_);
    job.start();
    std::atomic<int> calls{0};
    job.set_cancel_callback([&] { ++calls; });
    std::thread canceller([&] { job.request_cancel(job_cancelled()); });
    std::thread ender([&] { job.finish(absl::OkStatus()); });
    canceller.join();
    ender.join();
    EXPECT_EQ(job.state(), v1::Job::STATE_SUCCEEDED);
    EXPECT_EQ(calls, job.cancel_error().ok() ? 0 : 1);
  }
}

using JobDeathTest = JobTest;

TEST_F(JobDeathTest, EndsTheProcessAtABrokenContract) {
  Job job(options(), clock_);
  EXPECT_DEATH(job.request_cancel(absl::OkStatus()),
               "server/core/job\\.cc:[0-9]+: check failed: !error.ok");
  EXPECT_DEATH(job.set_cancel_callback(nullptr), "on_cancel != nullptr");
}

}  // namespace
}  // namespace ferry
