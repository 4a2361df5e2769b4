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
