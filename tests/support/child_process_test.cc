#include "tests/support/child_process.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

#include "absl/strings/numbers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/eventually.h"
#include "tests/support/files.h"
#include "tests/support/processes.h"

namespace ferry {
namespace {

ChildProcess::Options shell(const std::string& script) {
  ChildProcess::Options options;
  options.arguments = {"/bin/sh", "-c", script};
  return options;
}

TEST(ChildProcessTest, CollectsExitCodeAndOutput) {
  const ProcessResult result =
      run_process(shell("echo out; echo err >&2; exit 7"));
  EXPECT_EQ(result.exit.code, 7);
  EXPECT_EQ(result.exit.signal, 0);
  EXPECT_EQ(result.out, "out\n");
  EXPECT_EQ(result.err, "err\n");
}

TEST(ChildProcessTest, TellsTheSignalThatEndedIt) {
  ChildProcess process(shell("exec cat /dev/zero > /dev/null"));
  EXPECT_TRUE(process.is_running());
  process.send_signal(SIGKILL);
  const auto exit = process.wait(absl::Seconds(30));
  ASSERT_TRUE(exit.has_value());
  EXPECT_EQ(exit->signal, SIGKILL);
}

TEST(ChildProcessTest, OverridesEnvironment) {
  ChildProcess::Options options = shell("echo $HOME $PWD");
  options.environment = {"HOME=elsewhere"};
  options.working_directory = "/usr";
  EXPECT_EQ(run_process(options).out, "elsewhere /usr\n");
}

TEST(ChildProcessTest, ReadsStandardInputFromAFile) {
  ChildProcess::Options options = shell("cat");
  options.stdin_path = make_directory("input") + "/text";
  write_file(options.stdin_path, "hello");
  EXPECT_EQ(run_process(options).out, "hello");
}

TEST(ProcessesTest, OrphansFallToTheTest) {
  adopt_orphans();
  const ProcessResult result =
      run_process(shell("cat /dev/zero > /dev/null & echo $!"));
  pid_t orphan = 0;
  ASSERT_TRUE(absl::SimpleAtoi(result.out, &orphan));
  EXPECT_THAT(find_children(getpid()), ::testing::Contains(orphan));
  EXPECT_TRUE(eventually([&] {
    const std::vector<std::string> open = open_descriptors(orphan);
    return std::count(open.begin(), open.end(), "/dev/zero") == 1;
  }));
  kill(orphan, SIGKILL);
  EXPECT_EQ(waitpid(orphan, nullptr, 0), orphan);
  EXPECT_EQ(process_state(orphan), 0);
}

}  // namespace
}  // namespace ferry
