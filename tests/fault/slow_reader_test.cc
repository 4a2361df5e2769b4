// Clients that do not read what they asked for. tests/integration/limits_test
// has the ordinary case.

#include <signal.h>

#include <memory>
#include <string>
#include <vector>

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

class SlowReaderFaultTest : public DaemonFixture {
 protected:
  static void wait_until_succeeded(Daemon& daemon, const std::string& job) {
    ASSERT_TRUE(eventually([&] {
      return get_job(daemon.generation(), job).response.job().state() ==
             Job::STATE_SUCCEEDED;
    }));
  }
};

// The bytes are ferryd's by then: whom they came from does not matter.
TEST_F(SlowReaderFaultTest, GetsEverythingAlsoWhenItsWorkerIsLost) {
  Daemon& daemon = start_ready({{{"tiny", large_package()}}, {}});
  GenerateCall call(daemon.generation(), make_large_request());
  ASSERT_TRUE(call.wait_for_state(Job::STATE_RUNNING));
  ASSERT_NO_FATAL_FAILURE(wait_until_succeeded(daemon, call.job().name()));
  const pid_t pid = daemon.wait_for_worker();
  kill(pid, SIGKILL);
  ASSERT_NE(daemon.wait_for_worker(pid), 0);
  ASSERT_TRUE(call.finish().ok()) << describe(call.finish());
  ASSERT_THAT(call.outputs(), SizeIs(4));
  for (const v1::OutputInfo& info : call.job().outputs()) {
    EXPECT_EQ(sha256_hex(call.outputs().at(info.index())), info.sha256());
  }
}

// Each on a connection of its own; all are ended, and one that reads is not.
TEST_F(SlowReaderFaultTest, ManyAreEndedAndTheRankGoesOn) {
  constexpr int kReaders = 8;
  Daemon& daemon =
      start_ready({{{"tiny", large_package()}}, {"--slow_reader_timeout=2s"}});
  std::vector<std::unique_ptr<v1::GenerationService::Stub>> stubs;
  std::vector<std::unique_ptr<GenerateCall>> calls;
  for (int i = 0; i < kReaders; ++i) {
    stubs.push_back(v1::GenerationService::NewStub(daemon.new_channel()));
    calls.push_back(
        std::make_unique<GenerateCall>(*stubs.back(), make_large_request()));
    ASSERT_TRUE(calls.back()->wait_for_state(Job::STATE_RUNNING));
  }
  GenerateCall reader(daemon.generation(), make_large_request());
  EXPECT_TRUE(reader.finish().ok()) << describe(reader.finish());
  for (const auto& call : calls) {
    ASSERT_NO_FATAL_FAILURE(wait_until_succeeded(daemon, call->job().name()));
  }
  const auto ended = [&] {
    const std::string log = daemon.log();
    int count = 0;
    for (size_t at = log.find("SLOW_READER"); at != std::string::npos;
         at = log.find("SLOW_READER", at + 1)) {
      ++count;
    }
    return count;
  };
  EXPECT_TRUE(eventually([&] { return ended() >= kReaders; })) << ended();
  for (const auto& call : calls) {
    EXPECT_EQ(call->finish().error_code(), grpc::StatusCode::CANCELLED);
  }
}

}  // namespace
}  // namespace ferry
