#include "server/worker/run_worker.h"

#include <signal.h>

#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "platform/os/exit_status.h"
#include "platform/os/pipe.h"
#include "platform/os/socket_pair.h"
#include "platform/os/subprocess.h"

namespace ferry {
namespace {

using ::testing::HasSubstr;

constexpr char kWorker[] = "server/supervisor/testing/scripted_worker";
constexpr absl::Duration kGenerous = absl::Seconds(30);

// Starts a worker, as ferryd does, with these ends.
std::unique_ptr<Subprocess> start(SocketPair& ipc, Pipe& lifeline) {
  SubprocessOptions options;
  options.argv = {kWorker, "--ipc_fd=3", "--lifeline_fd=4"};
  options.inherited = {ipc.second.get(), lifeline.read_end.get()};
  auto process = Subprocess::spawn(options);
  EXPECT_TRUE(process.ok()) << process.status();
  lifeline.read_end.reset();
  return *std::move(process);
}

TEST(RunWorkerTest, EndsWithItsLifeline) {
  SocketPair ipc = *make_socket_pair();
  Pipe lifeline = *make_pipe();
  const auto process = start(ipc, lifeline);
  lifeline.write_end.reset();
  EXPECT_EQ(process->wait_for(kGenerous), ExitStatus::exited(0));
}

// ferryd is gone, and its group with it, when the process wakes up.
TEST(RunWorkerTest, OneThatWasStoppedEndsWhenItWakesUp) {
  SocketPair ipc = *make_socket_pair();
  Pipe lifeline = *make_pipe();
  const auto process = start(ipc, lifeline);
  process->send_signal(SIGSTOP);
  lifeline.write_end.reset();
  ipc.first.reset();
  EXPECT_EQ(process->wait_for(absl::Milliseconds(100)), std::nullopt);
  process->send_signal(SIGCONT);
  EXPECT_EQ(process->wait_for(kGenerous), ExitStatus::exited(0));
}

TEST(RunWorkerTest, EndsCleanlyWhenAsked) {
  SocketPair ipc = *make_socket_pair();
  Pipe lifeline = *make_pipe();
  const auto process = start(ipc, lifeline);
  // Before it installed its handler, the signal itself may end it.
  const ExitStatus status = process->terminate(kGenerous);
  EXPECT_TRUE(status == ExitStatus::exited(0) ||
              status == ExitStatus::signaled(SIGTERM))
      << status.to_string();
}

TEST(RunWorkerTest, NamesADescriptorThatIsNotThere) {
  EXPECT_THAT(std::string(run_worker({-1, -1}, nullptr).message()),
              HasSubstr("--ipc_fd=-1 is no open descriptor"));
}

// No thread's stack is as large as the limit says.
TEST(RunWorkerTest, WithoutAThreadItEndsWithAnError) {
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
  GTEST_SKIP() << "sanitizers read the limit, too";
#endif
  constexpr int kNoSuchLimit = 77;
  SocketPair ipc = *make_socket_pair();
  Pipe lifeline = *make_pipe();
  SubprocessOptions options;
  options.argv = {"/bin/sh", "-c",
                  absl::StrCat("ulimit -s 1000000000000 || exit ", kNoSuchLimit,
                               "; exec \"$0\" --ipc_fd=3 --lifeline_fd=4"),
                  kWorker};
  options.inherited = {ipc.second.get(), lifeline.read_end.get()};
  const auto process = Subprocess::spawn(options);
  ASSERT_TRUE(process.ok()) << process.status();
  const auto status = (*process)->wait_for(kGenerous);
  if (status == ExitStatus::exited(kNoSuchLimit)) {
    GTEST_SKIP() << "this machine does not allow such a limit";
  }
  EXPECT_EQ(status, ExitStatus::exited(1));
}

}  // namespace
}  // namespace ferry
