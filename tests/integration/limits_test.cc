// The daemon at its bounds: queue full, all streams taken, slow readers.

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/daemon_fixture.h"
#include "tests/support/error_details.h"
#include "tests/support/generate_call.h"
#include "tests/support/job_calls.h"
#include "tests/support/packages.h"
#include "tests/support/png_image.h"

namespace ferry {
namespace {

using ::testing::SizeIs;
using v1::Job;

using LimitsTest = DaemonFixture;

v1::GenerateRequest endless_request() {
  v1::GenerateRequest request = make_request();
  request.mutable_spec()->set_num_inference_steps(200);
  return request;
}

// Calls that are let in, the first running and the others queued.
using Calls = std::vector<std::unique_ptr<GenerateCall>>;
void fill(Daemon& daemon, int count, Calls* calls) {
  for (int i = 0; i < count; ++i) {
    calls->push_back(
        std::make_unique<GenerateCall>(daemon.generation(), endless_request()));
    ASSERT_TRUE(calls->back()->wait_for_state(i == 0 ? Job::STATE_RUNNING
                                                     : Job::STATE_QUEUED))
        << describe(calls->back()->finish());
  }
}

TEST_F(LimitsTest, QueueTakesExactlyItsLimit) {
  constexpr int kQueue = 3;
  Daemon& daemon =
      start_ready({{{"slow", slow_package()}}, {"--max_queue_jobs=3"}});
  Calls calls;
  ASSERT_NO_FATAL_FAILURE(fill(daemon, 1 + kQueue, &calls));

  GenerateCall refused(daemon.generation(), endless_request());
  EXPECT_EQ(refused.finish().error_code(),
            grpc::StatusCode::RESOURCE_EXHAUSTED);
  const ErrorDetails details = parse_details(refused.finish());
  EXPECT_EQ(details.reason, "QUEUE_FULL");
  ASSERT_TRUE(details.retry_delay.has_value());
  EXPECT_GT(*details.retry_delay, absl::ZeroDuration());
  EXPECT_THAT(refused.events(), testing::IsEmpty());
  // A full queue is no reason to be taken out of service.
  EXPECT_EQ(daemon.check_health("readiness"),
            grpc::health::v1::HealthCheckResponse::SERVING);

  // One that leaves makes room for exactly one.
  ASSERT_TRUE(
      cancel_job(daemon.generation(), calls.back()->job().name()).status.ok());
  EXPECT_FALSE(calls.back()->finish().ok());
  GenerateCall accepted(daemon.generation(), endless_request());
  EXPECT_TRUE(accepted.wait_for_state(Job::STATE_QUEUED));
  GenerateCall refused_too(daemon.generation(), endless_request());
  EXPECT_EQ(parse_details(refused_too.finish()).reason, "QUEUE_FULL");
}

TEST_F(LimitsTest, QueueIsBoundedInBytesToo) {
  Daemon& daemon =
      start_ready({{{"slow", slow_package()}}, {"--max_queue_bytes=40Ki"}});
  Calls calls;
  ASSERT_NO_FATAL_FAILURE(fill(daemon, 1, &calls));
  v1::GenerateRequest request = endless_request();
  request.mutable_spec()->set_prompt(std::string(30000, 'x'));
  GenerateCall queued(daemon.generation(), request);
  ASSERT_TRUE(queued.wait_for_state(Job::STATE_QUEUED))
      << describe(queued.finish());
  GenerateCall refused(daemon.generation(), request);
  EXPECT_EQ(parse_details(refused.finish()).reason, "QUEUE_FULL");
}

TEST_F(LimitsTest, ShortCallsAnswerWhileAllStreamsAreTaken) {
  // 64 calls at a time leave 32 streams.
  constexpr int kStreams = 32;
  Daemon& daemon =
      start_ready({{{"slow", slow_package()}}, {"--max_inflight=64"}});
  Calls calls;
  ASSERT_NO_FATAL_FAILURE(fill(daemon, kStreams, &calls));

  GenerateCall refused(daemon.generation(), endless_request());
  EXPECT_EQ(refused.finish().error_code(),
            grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(parse_details(refused.finish()).reason, "TOO_MANY_STREAMS");
  EXPECT_TRUE(parse_details(refused.finish()).retry_delay.has_value());

  // The best of some tries: the machine may be busy, a blocked server stays
  // blocked.
  const std::string& running = calls.front()->job().name();
  const auto best_time = [](const std::function<void()>& call) {
    absl::Duration best = absl::InfiniteDuration();
    for (int i = 0; i < 5; ++i) {
      const absl::Time start = absl::Now();
      call();
      best = std::min(best, absl::Now() - start);
    }
    return best;
  };
  EXPECT_LT(best_time([&] {
              EXPECT_EQ(daemon.check_health("readiness"),
                        grpc::health::v1::HealthCheckResponse::SERVING);
            }),
            absl::Milliseconds(100));
  EXPECT_LT(best_time([&] {
              EXPECT_TRUE(get_job(daemon.generation(), running).status.ok());
            }),
            absl::Milliseconds(100));
  EXPECT_LT(
      best_time([&] {
        EXPECT_TRUE(cancel_job(daemon.generation(), calls.back()->job().name())
                        .status.ok());
      }),
      absl::Milliseconds(100));
  EXPECT_EQ(parse_details(calls.back()->finish()).reason, "JOB_CANCELLED");
}

using SlowReaderTest = DaemonFixture;

TEST_F(SlowReaderTest, DoesNotSlowOthersAndIsEnded) {
  Daemon& daemon =
      start_ready({{{"tiny", large_package()}}, {"--slow_reader_timeout=2s"}});
  const auto channel = daemon.new_channel();
  const auto stub = v1::GenerationService::NewStub(channel);
  GenerateCall slow(*stub, make_large_request());
  ASSERT_TRUE(slow.wait_for_state(Job::STATE_RUNNING));

  // It reads nothing more, and the rank still goes to the next job.
  for (int i = 0; i < 3; ++i) {
    GenerateCall quick(daemon.generation(), make_request(i));
    ASSERT_TRUE(quick.finish().ok()) << describe(quick.finish());
  }
  // The job itself has succeeded: its outputs were ready.
  EXPECT_TRUE(eventually([&] {
    return get_job(daemon.generation(), slow.job().name())
               .response.job()
               .state() == Job::STATE_SUCCEEDED;
  }));
  // Its stream ends before it could read everything.
  EXPECT_TRUE(eventually(
      [&] { return absl::StrContains(daemon.log(), "SLOW_READER"); }));
  EXPECT_EQ(slow.finish().error_code(), grpc::StatusCode::CANCELLED);
}

TEST_F(SlowReaderTest, ReaderThatCatchesUpGetsEverything) {
  Daemon& daemon = start_ready({{{"tiny", large_package()}}, {}});
  GenerateCall slow(daemon.generation(), make_large_request());
  ASSERT_TRUE(slow.wait_for_state(Job::STATE_RUNNING));
  const std::string name = slow.job().name();
  ASSERT_TRUE(eventually([&] {
    return get_job(daemon.generation(), name).response.job().state() ==
           Job::STATE_SUCCEEDED;
  }));
  ASSERT_TRUE(slow.finish().ok()) << describe(slow.finish());
  ASSERT_THAT(slow.outputs(), SizeIs(4));
  for (const v1::OutputInfo& info : slow.job().outputs()) {
    EXPECT_EQ(sha256_hex(slow.outputs().at(info.index())), info.sha256());
  }
}

}  // namespace
}  // namespace ferry
