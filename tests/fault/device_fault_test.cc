// The device fails for good, as a GPU does after a kernel's illegal access:
// another worker takes over.

#include <signal.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fault/fault_fixture.h"
#include "tests/support/files.h"
#include "tests/support/packages.h"

namespace ferry {
namespace {

constexpr char kFails[] = "oom@device_copy";
constexpr char kHow[] = "exited with code 5: its device failed";

// Its DiT's blocks are streamed.
class DeviceFaultTest : public FaultFixture<DeviceFaultTest> {
 public:
  static std::string package() { return make_package(); }

  static Daemon::Options options() {
    Daemon::Options options = FaultFixture::options();
    const std::string config = make_directory("config") + "/server.txtpb";
    write_file(config,
               absl::StrCat("pipelines { name: \"faulty\" path: \"", package(),
                            "\" offload { mode: \"layer\" components: "
                            "\"dit\" } }\n"));
    options.pipelines.clear();
    options.flags.push_back(absl::StrCat("--config=", config));
    options.flags.push_back("--platform=simulated");
    return options;
  }

 protected:
  static std::string bytes_of(GenerateCall& call) {
    EXPECT_TRUE(call.finish().ok()) << describe(call.finish());
    return call.outputs().empty() ? "" : call.outputs().at(0);
  }
};

TEST_F(DeviceFaultTest, AnotherWorkerTakesOver) {
  GenerateCall good(generation(), make_request());
  const std::string expected = bytes_of(good);
  const v1::Pipeline before = pipeline();
  ReadinessWatch watch(daemon());
  faults().arm(kFails);
  GenerateCall running(generation(), make_request());
  ASSERT_TRUE(running.next().has_value());
  GenerateCall queued(generation(), make_request());
  expect_worker_lost(running, kHow);
  // What had not begun takes no notice.
  EXPECT_EQ(bytes_of(queued), expected);
  expect_replaced(watch, before);
  EXPECT_THAT(daemon().log(),
              testing::HasSubstr("a fault point made a copy fail"));
}

// The first copy of a request, which brings back what methods write, and those
// of its last steps.
TEST_F(DeviceFaultTest, NoPictureIsMadeWithACopyThatWasLostInSilence) {
  faults().arm("oom@silent_copy:1000000");
  GenerateCall good(generation(), make_request());
  EXPECT_FALSE(bytes_of(good).empty());
  const int copies = faults().hits();
  // Two slots are filled for the request that comes.
  ASSERT_GT(copies, 5);
  for (const int lost : {1, copies / 2, copies - 3, copies - 2}) {
    SCOPED_TRACE(absl::StrCat("copy ", lost, " of ", copies));
    const v1::Pipeline before = pipeline();
    ReadinessWatch watch(daemon());
    faults().arm(absl::StrCat("oom@silent_copy:", lost));
    GenerateCall call(generation(), make_request());
    expect_worker_lost(call, kHow);
    EXPECT_TRUE(call.outputs().empty());
    faults().disarm();
    expect_replaced(watch, before);
  }
}

// It is not the package's fault, so it is not final.
TEST_F(DeviceFaultTest, AlsoWhenItFailsInTheLoad) {
  const v1::Pipeline before = pipeline();
  ReadinessWatch watch(daemon());
  faults().arm(kFails);
  kill(worker_pid(), SIGKILL);
  ASSERT_TRUE(faults().wait_for_hit());
  expect_replaced(watch, before);
  // The worker whose device failed, and the one after it.
  EXPECT_EQ(pipeline().generation(), before.generation() + 2);
  EXPECT_THAT(daemon().log(), testing::HasSubstr(kHow));
}

}  // namespace
}  // namespace ferry
