// Disks without a byte left, below everything that ferryd and ferryctl write.

#include <signal.h>

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fault/full_disk.h"
#include "tests/support/child_process.h"
#include "tests/support/daemon_fixture.h"
#include "tests/support/error_details.h"
#include "tests/support/files.h"
#include "tests/support/generate_call.h"
#include "tests/support/packages.h"

namespace ferry {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr char kNoSpace[] = "No space left on device";
// Every write to it fails with ENOSPC.
constexpr char kFullDevice[] = "/dev/full";
constexpr int kLocalError = 2;

class DiskTest : public DaemonFixture {
 public:
  // First of all, while the process has one thread.
  static void SetUpTestSuite() { disk(); }

 protected:
  void SetUp() override {
    if (!has_disk()) return;
    const absl::Status status = refill_disk(full_directory());
    ASSERT_TRUE(status.ok()) << status;
  }

  static const std::string& full_directory() { return *disk(); }
  static bool has_disk() { return disk().ok(); }
  static std::string no_disk() {
    return absl::StrCat("needs a tmpfs: ", disk().status().message());
  }
  static std::vector<std::string> files() {
    return list_directory(full_directory());
  }

  static Daemon::Options tiny() {
    Daemon::Options options;
    options.pipelines = {{"tiny", make_package()}};
    return options;
  }

  // Requests, a lost worker, and the end: each writes to the log.
  static void expect_works(Daemon& daemon) {
    expect_serves(daemon);
    const int64_t generation =
        daemon.get_pipeline("pipelines/tiny").generation();
    kill(daemon.wait_for_worker(), SIGKILL);
    EXPECT_TRUE(eventually([&] {
      const v1::Pipeline pipeline = daemon.get_pipeline("pipelines/tiny");
      return pipeline.generation() > generation &&
             pipeline.state() == v1::Pipeline::STATE_READY;
    }));
    expect_serves(daemon);
  }

  static void expect_serves(Daemon& daemon) {
    GenerateCall call(daemon.generation(), make_request());
    EXPECT_TRUE(call.finish().ok()) << describe(call.finish());
  }

  // Each is an object of its own.
  static void expect_whole_lines(const std::string& log) {
    for (const absl::string_view line :
         absl::StrSplit(log, '\n', absl::SkipEmpty())) {
      EXPECT_TRUE(absl::StartsWith(line, "{\"ts\"") &&
                  absl::EndsWith(line, "}"))
          << line;
    }
  }

  static ProcessResult ferryctl(const Daemon& daemon,
                                std::vector<std::string> arguments,
                                const std::string& stdout_path = "") {
    ChildProcess::Options options;
    options.arguments = {runfile("client/ferryctl"),
                         absl::StrCat("--address=", daemon.address())};
    options.arguments.insert(options.arguments.end(), arguments.begin(),
                             arguments.end());
    options.stdout_path = stdout_path;
    return run_process(options);
  }

 private:
  static const absl::StatusOr<std::string>& disk() {
    static auto& disk = *new absl::StatusOr<std::string>(mount_full_disk());
    return disk;
  }
};

TEST_F(DiskTest, AddressFileOnAFullDiskIsRefused) {
  if (!has_disk()) GTEST_SKIP() << no_disk();
  const std::string path = full_directory() + "/addresses";
  ChildProcess::Options options;
  options.arguments = {
      runfile("server/frontend/ferryd"), "--grpc_address=127.0.0.1:0",
      absl::StrCat("--pipeline=tiny=", make_package()),
      absl::StrCat("--address_file=", path),
      absl::StrCat("--worker_path=",
                   product_program("server/worker/ferry_worker"))};
  const ProcessResult result = run_process(options);
  EXPECT_EQ(result.exit.code, 2) << result.err;
  EXPECT_THAT(result.err, HasSubstr(path));
  EXPECT_THAT(result.err, HasSubstr(kNoSpace));
  EXPECT_THAT(files(), ElementsAre("filler"));
}

TEST_F(DiskTest, LogFileOnAFullDiskChangesNothing) {
  if (!has_disk()) GTEST_SKIP() << no_disk();
  const std::string path = full_directory() + "/log";
  Daemon::Options options = tiny();
  options.flags = {absl::StrCat("--log_file=", path)};
  Daemon& daemon = start_ready(options);
  expect_works(daemon);
  EXPECT_EQ(read_file(path), "");
  // It is written again once there is room, in whole lines.
  free_disk(full_directory());
  expect_works(daemon);
  daemon.process().send_signal(SIGTERM);
  EXPECT_TRUE(daemon.process().wait(kPatience).has_value());
  const std::string log = read_file(path).value_or("");
  EXPECT_THAT(log, HasSubstr("pipeline is ready"));
  expect_whole_lines(log);
  EXPECT_THAT(log, Not(HasSubstr(kPromptCanary)));
}

TEST_F(DiskTest, LogToAFullDeviceChangesNothing) {
  Daemon::Options options = tiny();
  options.stderr_path = kFullDevice;
  expect_works(start_ready(options));
}

TEST_F(DiskTest, LogFileOnAFullDeviceChangesNothing) {
  Daemon::Options options = tiny();
  options.flags = {absl::StrCat("--log_file=", kFullDevice)};
  expect_works(start_ready(options));
}

TEST_F(DiskTest, FerryctlSavesNothingPartial) {
  if (!has_disk()) GTEST_SKIP() << no_disk();
  Daemon& daemon = start_ready(tiny());
  const std::string path = full_directory() + "/picture.png";
  const std::vector<std::string> before = files();
  const ProcessResult result =
      ferryctl(daemon, {"generate", "a red circle", "-o", path});
  EXPECT_EQ(result.exit.code, kLocalError) << result.err;
  EXPECT_THAT(result.err, HasSubstr(path));
  EXPECT_THAT(result.err, HasSubstr(kNoSpace));
  EXPECT_THAT(result.out, IsEmpty());
  EXPECT_EQ(files(), before);
}

TEST_F(DiskTest, FerryctlKeepsTheOldPicture) {
  if (!has_disk()) GTEST_SKIP() << no_disk();
  Daemon& daemon = start_ready(tiny());
  const std::string path = full_directory() + "/old.png";
  write_file(path, "");
  const ProcessResult result =
      ferryctl(daemon, {"generate", "a red circle", "-o", path});
  EXPECT_EQ(result.exit.code, kLocalError) << result.err;
  EXPECT_EQ(read_file(path), "");
}

// A script that reads the result must not take nothing for success.
TEST_F(DiskTest, FerryctlSaysThatItsOutputIsLost) {
  Daemon& daemon = start_ready(tiny());
  const std::string picture = make_directory("pictures") + "/picture.png";
  for (const std::vector<std::string>& arguments :
       std::vector<std::vector<std::string>>{
           {"pipelines", "list"},
           {"health"},
           {"jobs", "list", "--json"},
           {"generate", "a circle", "-o", picture}}) {
    const ProcessResult result = ferryctl(daemon, arguments, kFullDevice);
    EXPECT_EQ(result.exit.code, kLocalError)
        << arguments[0] << ": " << result.err;
    EXPECT_THAT(result.err, HasSubstr("standard output")) << arguments[0];
  }
}

TEST_F(DiskTest, ConfigurationThatCannotBePrintedIsAnError) {
  for (const char* flag : {"--print_effective_config", "--help"}) {
    ChildProcess::Options options;
    options.arguments = {runfile("server/frontend/ferryd"),
                         absl::StrCat("--pipeline=tiny=", make_package()),
                         flag};
    options.stdout_path = kFullDevice;
    const ProcessResult result = run_process(options);
    EXPECT_EQ(result.exit.code, 1) << flag;
    EXPECT_THAT(result.err, HasSubstr("standard output")) << flag;
  }
}

}  // namespace
}  // namespace ferry
