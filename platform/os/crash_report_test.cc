#include "platform/os/crash_report.h"

#include <gtest/gtest.h>
#include <signal.h>

namespace ferry {
namespace {

void end_by(int signal) {
  report_crashes("crash_report_test");
  raise(signal);
}

TEST(CrashReportDeathTest, ACrashWritesItsStack) {
  EXPECT_EXIT(end_by(SIGSEGV), testing::KilledBySignal(SIGSEGV),
              "SIGSEGV received");
}

// It came while the program ended anyway, and nobody handled it any more.
TEST(CrashReportDeathTest, ToBeAskedToEndIsNoCrash) {
  EXPECT_EXIT(end_by(SIGTERM), testing::KilledBySignal(SIGTERM), "^$");
}

}  // namespace
}  // namespace ferry
