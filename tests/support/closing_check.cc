#include "tests/support/closing_check.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "platform/base/check.h"
#include "tests/support/generate_call.h"
#include "tests/support/processes.h"

namespace ferry {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// LeakSanitizer looks for leaks from a child of the process that ends. A worker
// that is killed meanwhile leaves that child, which ends by itself.
#if __has_feature(address_sanitizer)
constexpr bool kLooksForLeaks = true;
#else
constexpr bool kLooksForLeaks = false;
#endif

// Workers that fell to the test because their ferryd is gone.
std::vector<pid_t> find_orphans() {
  std::vector<pid_t> orphans;
  for (const pid_t pid : find_children(getpid())) {
    if (is_worker(pid)) orphans.push_back(pid);
  }
  return orphans;
}

void reap_orphans() {
  EXPECT_TRUE(eventually([] {
    for (const pid_t pid : find_orphans()) {
      if (process_state(pid) != 'Z') return false;
    }
    return true;
  })) << "a worker outlives ferryd";
  for (const pid_t pid : find_orphans()) waitpid(pid, nullptr, 0);
}

}  // namespace

void expect_idle(Daemon& daemon) {
  FERRY_CHECK_GT(daemon.ready_sockets(), 0);
  EXPECT_TRUE(eventually([&] { return daemon.unfinished_jobs().empty(); }))
      << "a job is left: "
      << daemon.unfinished_jobs().front().ShortDebugString();
  const pid_t pid = daemon.process().pid();
  EXPECT_TRUE(eventually([&] {
    return count_sockets(pid) <= daemon.ready_sockets();
  })) << count_sockets(pid)
      << " sockets, and " << daemon.ready_sockets() << " when it got ready";
}

void expect_closes(Daemon& daemon, int exit_code) {
  std::vector<std::string> shared_memory =
      shared_memory_files(daemon.process().pid());
  for (const pid_t pid : daemon.worker_pids()) {
    for (std::string& file : shared_memory_files(pid)) {
      shared_memory.push_back(std::move(file));
    }
  }
  daemon.process().send_signal(SIGTERM);
  const auto exit = daemon.process().wait(kPatience);
  ASSERT_TRUE(exit.has_value()) << "ferryd does not end\n" << daemon.log();
  const int code = exit->signal != 0 ? -exit->signal : exit->code;
  EXPECT_EQ(code, exit_code) << daemon.log();

  if (exit_code == 0 && !kLooksForLeaks) {
    EXPECT_THAT(find_orphans(), IsEmpty());
  }
  reap_orphans();
  EXPECT_THAT(daemon.leftover_files(), IsEmpty());
  for (const std::string& file : shared_memory) {
    EXPECT_FALSE(std::filesystem::exists(file)) << file;
  }
  const std::string log = daemon.log();
  EXPECT_THAT(log, Not(HasSubstr(kPromptCanary)));
  EXPECT_THAT(log, Not(HasSubstr("terminate called")));
  EXPECT_THAT(log, Not(HasSubstr("Assertion")));
}

}  // namespace ferry
