#include "tests/benchmarks/start_time.h"

#include <poll.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <filesystem>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "tests/benchmarks/measurement.h"
#include "tests/support/child_process.h"
#include "tests/support/daemon.h"
#include "tests/support/files.h"

namespace ferry {
namespace {

constexpr int kStarts = 11;
constexpr int kReadyStarts = 3;

// ferryd writes its address file by a rename, once it listens: the kernel tells
// the moment.
double milliseconds_to_listen(const std::string& package) {
  const std::string directory = make_directory("start");
  const std::string address_file = directory + "/addresses";
  const int watch = inotify_init1(IN_CLOEXEC);
  require(watch >= 0 && inotify_add_watch(watch, directory.c_str(),
                                          IN_MOVED_TO | IN_CREATE) >= 0,
          "cannot watch a directory");
  ChildProcess::Options options;
  options.arguments = {runfile("server/frontend/ferryd"),
                       "--grpc_address=127.0.0.1:0",
                       absl::StrCat("--address_file=", address_file),
                       absl::StrCat("--pipeline=bench=", package)};
  const absl::Time start = absl::Now();
  ChildProcess ferryd(options);
  while (!std::filesystem::exists(address_file)) {
    pollfd poll_fd = {watch, POLLIN, 0};
    require(poll(&poll_fd, 1, 30000) == 1 && ferryd.is_running(),
            absl::StrCat("ferryd does not start: ", ferryd.read_stderr()));
    char events[4096];
    require(read(watch, events, sizeof(events)) > 0, "cannot read inotify");
  }
  const absl::Duration elapsed = absl::Now() - start;
  close(watch);
  return absl::ToDoubleMilliseconds(elapsed);
}

double milliseconds_to_ready(const std::string& package) {
  Daemon::Options options;
  options.pipelines = {{"bench", package}};
  const absl::Time start = absl::Now();
  Daemon daemon(options);
  require(daemon.wait_until_ready(),
          absl::StrCat("ferryd does not get ready: ", daemon.log()));
  return absl::ToDoubleMilliseconds(absl::Now() - start);
}

}  // namespace

void measure_start_time(const std::string& package) {
  std::vector<double> listen;
  for (int i = 0; i < kStarts; ++i) {
    listen.push_back(milliseconds_to_listen(package));
  }
  report("ferryd_start_ms", median(listen), "ms",
         absl::StrCat("process start to port bound, median of ", kStarts));
  std::vector<double> ready;
  for (int i = 0; i < kReadyStarts; ++i) {
    ready.push_back(milliseconds_to_ready(package));
  }
  report("ready_after_start_ms", median(ready), "ms",
         absl::StrCat("process start to SERVING, package loaded, median of ",
                      kReadyStarts));
}

}  // namespace ferry
