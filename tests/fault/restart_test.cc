// Workers that die again and again: each is replaced, and ferryd does not grow.

#include <signal.h>

#include <filesystem>
#include <sstream>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/daemon_fixture.h"
#include "tests/support/error_details.h"
#include "tests/support/files.h"
#include "tests/support/generate_call.h"
#include "tests/support/packages.h"
#include "tests/support/processes.h"

namespace ferry {
namespace {

using grpc::health::v1::HealthCheckResponse;
using v1::Job;

constexpr char kPipeline[] = "pipelines/faulty";

// What a process holds.
struct Holdings {
  int descriptors = 0;
  int threads = 0;
  int64_t kib = 0;
};

Holdings holdings(pid_t pid) {
  Holdings result;
  result.descriptors = static_cast<int>(open_descriptors(pid).size());
  std::istringstream status(
      read_file(absl::StrCat("/proc/", pid, "/status")).value_or(""));
  for (std::string word; status >> word;) {
    if (word == "Threads:") status >> result.threads;
    if (word == "VmRSS:") status >> result.kib;
  }
  return result;
}

class RestartTest : public DaemonFixture {
 protected:
  // A worker without LibTorch starts in milliseconds; all else is real.
  Daemon& start_scripted() {
    Daemon::Options options;
    options.pipelines = {{"faulty", make_directory("package")}};
    options.flags = {
        absl::StrCat("--worker_path=",
                     runfile("server/supervisor/testing/scripted_worker")),
        "--worker_restart_backoff_min=1ms", "--worker_restart_backoff_max=1ms",
        "--worker_restart_limit=1000", "--log_level=error"};
    return start_ready(options);
  }

  // Blocks until a worker is ready that was not killed: one that was may have
  // been ready before, and is taken for it until its end is noticed.
  static v1::Pipeline wait_for_other(Daemon& daemon, pid_t killed) {
    v1::Pipeline pipeline;
    EXPECT_TRUE(eventually([&] {
      pipeline = daemon.get_pipeline(kPipeline);
      return pipeline.state() == v1::Pipeline::STATE_READY &&
             pipeline.ranks(0).pid() != killed;
    })) << daemon.log();
    return pipeline;
  }

  // Restarts until the pipeline has this generation. Workers die idle, in a
  // generation, and while they load.
  static void restart_until(Daemon& daemon, int64_t generation) {
    v1::Pipeline pipeline = wait_for_other(daemon, 0);
    while (pipeline.generation() < generation) {
      auto pid = static_cast<pid_t>(pipeline.ranks(0).pid());
      switch (pipeline.generation() % 3) {
        case 0: {
          GenerateCall call(daemon.generation(), make_request());
          EXPECT_TRUE(call.finish().ok()) << describe(call.finish());
          kill(pid, SIGKILL);
          break;
        }
        case 1: {
          GenerateCall call(daemon.generation(), make_request());
          EXPECT_TRUE(call.wait_for_state(Job::STATE_QUEUED));
          kill(pid, SIGKILL);
          // It may have been quicker.
          if (!call.finish().ok()) {
            EXPECT_EQ(parse_details(call.finish()).reason, "WORKER_LOST");
          }
          break;
        }
        default:
          kill(pid, SIGKILL);
          pid = daemon.wait_for_worker(pid);
          kill(pid, SIGKILL);
      }
      pipeline = wait_for_other(daemon, pid);
    }
  }
};

TEST_F(RestartTest, TwoHundredRestartsLeaveNothing) {
  constexpr int kWarm = 50;
  constexpr int kRestarts = 200;
  // 150 restarts: 27 KiB each would show.
  constexpr int64_t kGrowthKib = 4096;
  Daemon& daemon = start_scripted();
  const pid_t pid = daemon.process().pid();
  restart_until(daemon, 1 + kWarm);
  const Holdings before = holdings(pid);
  restart_until(daemon, 1 + kRestarts);

  Holdings after;
  EXPECT_TRUE(eventually([&] {
    after = holdings(pid);
    return after.descriptors <= before.descriptors;
  })) << after.descriptors
      << " descriptors, and " << before.descriptors << " before";
  EXPECT_LE(after.threads, before.threads + 2);
  // A sanitizer keeps freed memory, and looks for leaks itself.
  if (!has_product_folder()) {
    EXPECT_LE(after.kib, before.kib + kGrowthKib);
  }
  RecordProperty("descriptors", after.descriptors);
  RecordProperty("growth_kib", static_cast<int>(after.kib - before.kib));
  EXPECT_EQ(daemon.worker_pids().size(), 1u);
  EXPECT_EQ(daemon.check_health("readiness"), HealthCheckResponse::SERVING);
  GenerateCall call(daemon.generation(), make_request());
  EXPECT_TRUE(call.finish().ok()) << describe(call.finish());
}

}  // namespace
}  // namespace ferry
