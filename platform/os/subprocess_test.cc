#include "platform/os/subprocess.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "platform/os/exit_status.h"
#include "platform/os/pipe.h"
#include "platform/os/process_spawner.h"
#include "platform/os/socket_pair.h"
#include "platform/os/unique_fd.h"

namespace ferry {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;

constexpr absl::Duration kGenerous = absl::Seconds(30);

SubprocessOptions shell(const std::string& script,
                        std::vector<int> inherited = {}) {
  SubprocessOptions options;
  options.argv = {"/bin/sh", "-c", script};
  options.inherited = std::move(inherited);
  return options;
}

// Reads until `text` ends with a newline or the other side closes.
std::string read_line(int fd) {
  std::string text;
  char c;
  while (read(fd, &c, 1) == 1 && c != '\n') text += c;
  return text;
}

bool closes_within(int fd, absl::Duration timeout) {
  pollfd wait = {fd, POLLIN, 0};
  if (poll(&wait, 1, static_cast<int>(absl::ToInt64Milliseconds(timeout))) != 1)
    return false;
  char c;
  return read(fd, &c, 1) == 0;
}

std::string proc_text(pid_t pid, const std::string& name) {
  std::ifstream file(absl::StrCat("/proc/", pid, "/", name));
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

bool process_exists(pid_t pid) { return kill(pid, 0) == 0; }

TEST(ExitStatusTest, SaysHowAProcessEnded) {
  EXPECT_EQ(ExitStatus::exited(3).to_string(), "exited with code 3");
  EXPECT_EQ(ExitStatus::signaled(SIGKILL).to_string(),
            "killed by signal 9 (SIGKILL)");
}

TEST(SubprocessTest, ReportsTheExitCodeAsOftenAsAsked) {
  auto process = Subprocess::spawn(shell("exit 3"));
  ASSERT_TRUE(process.ok()) << process.status();
  EXPECT_EQ((*process)->wait_for(kGenerous), ExitStatus::exited(3));
  EXPECT_EQ((*process)->wait_for(absl::ZeroDuration()), ExitStatus::exited(3));
  EXPECT_FALSE(process_exists((*process)->pid()));
}

TEST(SubprocessTest, ReportsTheSignal) {
  auto process = Subprocess::spawn(shell("kill -SEGV $$"));
  ASSERT_TRUE(process.ok()) << process.status();
  EXPECT_EQ((*process)->wait_for(kGenerous), ExitStatus::signaled(SIGSEGV));
}

TEST(SubprocessTest, NamesAProgramThatCannotBeStarted) {
  SubprocessOptions options;
  options.argv = {"/no/such/program"};
  const auto process = Subprocess::spawn(options);
  EXPECT_EQ(process.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(process.status().message()),
              HasSubstr("/no/such/program"));
  // And leaves no zombie.
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1);
  EXPECT_EQ(errno, ECHILD);
}

TEST(SubprocessTest, TerminateAsksFirst) {
  Pipe ready = *make_pipe();
  Pipe never = *make_pipe();
  auto process = Subprocess::spawn(
      shell("trap 'exit 5' TERM; echo up >&3; while :; do read x <&4; done",
            {ready.write_end.get(), never.read_end.get()}));
  ASSERT_TRUE(process.ok()) << process.status();
  ASSERT_EQ(read_line(ready.read_end.get()), "up");
  EXPECT_EQ((*process)->terminate(kGenerous), ExitStatus::exited(5));
}

TEST(SubprocessTest, TerminateKillsWhatIgnoresSigterm) {
  Pipe ready = *make_pipe();
  Pipe never = *make_pipe();
  auto process =
      Subprocess::spawn(shell("trap '' TERM; echo up >&3; read x <&4",
                              {ready.write_end.get(), never.read_end.get()}));
  ASSERT_TRUE(process.ok()) << process.status();
  ASSERT_EQ(read_line(ready.read_end.get()), "up");
  EXPECT_EQ((*process)->terminate(absl::Milliseconds(20)),
            ExitStatus::signaled(SIGKILL));
}

TEST(SubprocessTest, TheDestructorKillsAndReaps) {
  Pipe never = *make_pipe();
  pid_t pid;
  {
    auto process =
        Subprocess::spawn(shell("read x <&3", {never.read_end.get()}));
    ASSERT_TRUE(process.ok()) << process.status();
    pid = (*process)->pid();
    EXPECT_TRUE(process_exists(pid));
  }
  EXPECT_FALSE(process_exists(pid));
}

TEST(SubprocessTest, InheritsOnlyWhatIsNamed) {
  // Without O_CLOEXEC, as a careless library would.
  const UniqueFd leak(open("/dev/null", O_RDONLY));
  ASSERT_TRUE(leak.valid());
  Pipe never = *make_pipe();
  SocketPair sockets = *make_socket_pair();
  auto process = Subprocess::spawn(shell(
      "echo >&4; read x <&3", {never.read_end.get(), sockets.second.get()}));
  ASSERT_TRUE(process.ok()) << process.status();
  // Before the shell runs, the loader has its libraries open.
  pollfd ready = {sockets.first.get(), POLLIN, 0};
  ASSERT_EQ(poll(&ready, 1, /*timeout=*/30'000), 1);
  std::set<std::string> open;
  for (const auto& entry : std::filesystem::directory_iterator(
           absl::StrCat("/proc/", (*process)->pid(), "/fd"))) {
    open.insert(entry.path().filename());
  }
  // The shell keeps a copy of what it redirects from 10 on.
  open.erase("10");
  EXPECT_EQ(open, (std::set<std::string>{"0", "1", "2", "3", "4"}));
}

TEST(SubprocessTest, DescriptorsMayStandInEachOthersPlaces) {
  // The pipes' own numbers are likely 3 to 6: each is the other's target.
  Pipe a = *make_pipe();
  Pipe b = *make_pipe();
  auto process =
      Subprocess::spawn(shell("echo first >&3; echo second >&4",
                              {b.write_end.get(), a.write_end.get()}));
  ASSERT_TRUE(process.ok()) << process.status();
  EXPECT_EQ(read_line(b.read_end.get()), "first");
  EXPECT_EQ(read_line(a.read_end.get()), "second");
}

TEST(SubprocessTest, RedirectsStdoutAndStderr) {
  Pipe out = *make_pipe();
  Pipe err = *make_pipe();
  SubprocessOptions options = shell("echo to out; echo to err >&2");
  options.stdout_fd = out.write_end.get();
  options.stderr_fd = err.write_end.get();
  auto process = Subprocess::spawn(options);
  ASSERT_TRUE(process.ok()) << process.status();
  EXPECT_EQ(read_line(out.read_end.get()), "to out");
  EXPECT_EQ(read_line(err.read_end.get()), "to err");
}

TEST(SubprocessTest, TheChildStartsClean) {
  signal(SIGPIPE, SIG_IGN);
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigset_t old;
  pthread_sigmask(SIG_BLOCK, &set, &old);
  Pipe never = *make_pipe();
  SubprocessOptions options = shell("read x <&3", {never.read_end.get()});
  options.oom_score_adj = 300;
  auto process = Subprocess::spawn(options);
  pthread_sigmask(SIG_SETMASK, &old, nullptr);
  signal(SIGPIPE, SIG_DFL);
  ASSERT_TRUE(process.ok()) << process.status();
  const std::string status = proc_text((*process)->pid(), "status");
  EXPECT_THAT(status, HasSubstr("SigBlk:\t0000000000000000"));
  // 32 and 33 are glibc's own, which no program can reset.
  EXPECT_THAT(status, ContainsRegex("SigIgn:\t0000000[01]80000000|"
                                    "SigIgn:\t0000000000000000"));
  EXPECT_THAT(status, HasSubstr("NoNewPrivs:\t1"));
  EXPECT_EQ(proc_text((*process)->pid(), "oom_score_adj"), "300\n");
  EXPECT_EQ(getsid((*process)->pid()), (*process)->pid());
}

TEST(ProcessSpawnerTest, AChildSurvivesTheThreadThatAskedForIt) {
  ProcessSpawner spawner;
  Pipe to = *make_pipe();
  Pipe from = *make_pipe();
  std::unique_ptr<Subprocess> process;
  std::thread([&] {
    process = *spawner.spawn(
        shell("exec cat <&3 >&4", {to.read_end.get(), from.write_end.get()}));
  }).join();
  from.write_end.reset();
  ASSERT_EQ(write(to.write_end.get(), "alive\n", 6), 6);
  EXPECT_EQ(read_line(from.read_end.get()), "alive");
}

// The reason for ProcessSpawner.
TEST(SubprocessTest, AChildDiesWithTheThreadThatForkedIt) {
  Pipe never = *make_pipe();
  std::unique_ptr<Subprocess> process;
  std::thread([&] {
    process = *Subprocess::spawn(shell("read x <&3", {never.read_end.get()}));
  }).join();
  EXPECT_EQ(process->wait_for(kGenerous), ExitStatus::signaled(SIGKILL));
}

TEST(ProcessSpawnerTest, ServesManyThreads) {
  ProcessSpawner spawner;
  std::vector<std::thread> threads;
  std::vector<std::optional<ExitStatus>> statuses(8);
  for (size_t i = 0; i < statuses.size(); ++i) {
    threads.emplace_back([&spawner, &statuses, i] {
      auto process = spawner.spawn(shell(absl::StrCat("exit ", i)));
      if (process.ok()) statuses[i] = (*process)->wait_for(kGenerous);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (size_t i = 0; i < statuses.size(); ++i) {
    EXPECT_EQ(statuses[i], ExitStatus::exited(static_cast<int>(i)));
  }
}

TEST(ProcessSpawnerTest, NoChildOutlivesAKilledParent) {
  Pipe held = *make_pipe();
  Pipe ready = *make_pipe();
  const pid_t parent = fork();
  ASSERT_GE(parent, 0);
  if (parent == 0) {
    ProcessSpawner spawner;
    auto child = spawner.spawn(shell(
        "trap '' TERM HUP INT; echo up >&3; while :; do read x <&4; done",
        {ready.write_end.get(), held.read_end.get(), held.write_end.get()}));
    while (true) pause();
  }
  ready.write_end.reset();
  held.write_end.reset();
  ASSERT_EQ(read_line(ready.read_end.get()), "up");
  kill(parent, SIGKILL);
  waitpid(parent, nullptr, 0);
  // Only the grandchild still held the other end.
  EXPECT_TRUE(closes_within(held.read_end.get(), kGenerous));
}

TEST(SubprocessTest, LeavesNoDescriptorBehind) {
  const auto count = [] {
    size_t n = 0;
    for (const auto& entry :
         std::filesystem::directory_iterator("/proc/self/fd")) {
      n += entry.exists() ? 1 : 0;
    }
    return n;
  };
  const size_t before = count();
  for (int i = 0; i < 20; ++i) {
    auto process = Subprocess::spawn(shell("exit 0"));
    ASSERT_TRUE(process.ok());
    (*process)->wait_for(kGenerous);
  }
  EXPECT_EQ(count(), before);
}

}  // namespace
}  // namespace ferry
