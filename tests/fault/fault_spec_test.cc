#include "tests/fault/fault_spec.h"

#include <signal.h>
#include <string.h>

#include <cstdlib>
#include <new>
#include <thread>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "platform/base/fault_point.h"
#include "tests/fault/faults.h"

namespace ferry {
namespace {

TEST(FaultSpecTest, Parses) {
  const auto crash = parse_fault("crash@decode");
  ASSERT_TRUE(crash.ok()) << crash.status();
  EXPECT_EQ(crash->kind, Fault::Kind::kCrash);
  EXPECT_EQ(crash->point, "decode");
  EXPECT_EQ(crash->hit, 1);
  const auto slow = parse_fault("slow@denoise_step:3:250");
  ASSERT_TRUE(slow.ok()) << slow.status();
  EXPECT_EQ(slow->kind, Fault::Kind::kSlow);
  EXPECT_EQ(slow->hit, 3);
  EXPECT_EQ(slow->pause, absl::Milliseconds(250));
  EXPECT_EQ(parse_fault("oom@x:*")->hit, 0);
  EXPECT_EQ(parse_fault("hang@x")->kind, Fault::Kind::kHang);
}

TEST(FaultSpecTest, RefusesWhatIsWrong) {
  for (const char* text :
       {"", "crash", "crash@", "explode@x", "crash@x:0", "crash@x:-1",
        "crash@x:y", "crash@x:1:100", "slow@x:1:0", "slow@x:1:2:3"}) {
    EXPECT_FALSE(parse_fault(text).ok()) << text;
  }
}

// One process, one variable: it is read at the first hit.
class FaultPointTest : public ::testing::Test {
 protected:
  static Faults& faults() {
    static auto& faults = *[] {
      auto* made = new Faults();
      putenv(strdup(made->daemon_options("", "").environment[0].c_str()));
      return made;
    }();
    return faults;
  }

  void SetUp() override { faults().disarm(); }
  void TearDown() override { faults().disarm(); }
};

TEST_F(FaultPointTest, OnlyTheNthHitOfTheArmedPointCounts) {
  fault_point("place");
  faults().arm("oom@place:2");
  fault_point("elsewhere");
  fault_point("place");
  EXPECT_THROW(fault_point("place"), std::bad_alloc);
  fault_point("place");
  EXPECT_EQ(faults().hits(), 3);
  // Arming counts anew.
  faults().arm("oom@place:*");
  EXPECT_EQ(faults().hits(), 0);
  EXPECT_THROW(fault_point("place"), std::bad_alloc);
  EXPECT_THROW(fault_point("place"), std::bad_alloc);
  faults().disarm();
  fault_point("place");
  EXPECT_EQ(faults().hits(), 2);
}

TEST_F(FaultPointTest, HangsUntilDisarmed) {
  faults().arm("hang@place");
  std::thread thread([] { fault_point("place"); });
  EXPECT_TRUE(faults().wait_for_hit());
  faults().disarm();
  thread.join();
}

TEST_F(FaultPointTest, SlowGoesOn) {
  faults().arm("slow@place:1:1");
  fault_point("place");
  EXPECT_EQ(faults().hits(), 1);
}

TEST_F(FaultPointTest, CrashEndsTheProcess) {
  faults().arm("crash@place");
  EXPECT_EXIT(fault_point("place"), testing::KilledBySignal(SIGABRT), "");
}

}  // namespace
}  // namespace ferry
