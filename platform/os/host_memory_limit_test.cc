#include "platform/os/host_memory_limit.h"

#include <sys/resource.h>

#include <filesystem>
#include <fstream>
#include <limits>

#include "gtest/gtest.h"

namespace ferry {
namespace {

class HostMemoryLimitTest : public ::testing::Test {
 protected:
  HostMemoryLimitTest() {
    const std::string name =
        ::testing::UnitTest::GetInstance()->current_test_info()->name();
    root_ = std::filesystem::path(::testing::TempDir()) / name;
    std::filesystem::remove_all(root_);
  }

  void write(const std::string& name, const std::string& text) {
    const std::filesystem::path path = root_ / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }

  HostMemoryLimit limit() const {
    return host_memory_limit(
        {root_ / "meminfo", root_ / "statm", root_ / "self", root_ / "cgroup"});
  }

  std::filesystem::path root_;
};

TEST_F(HostMemoryLimitTest, IsWhatTheMachineHasAvailable) {
  write("meminfo", "MemTotal:  9000 kB\nMemAvailable:    7 kB\n");
  EXPECT_EQ(limit().available_bytes, 7 * 1024);
  EXPECT_EQ(limit().limited_by, "MemAvailable");
}

TEST_F(HostMemoryLimitTest, IsWhatV2Leaves) {
  write("meminfo", "MemAvailable: 1000 kB\n");
  write("self", "0::/pod/box\n");
  write("cgroup/pod/box/memory.max", "max\n");
  write("cgroup/pod/memory.max", "5000\n");
  write("cgroup/pod/memory.current", "2000\n");
  EXPECT_EQ(limit().available_bytes, 3000);
  EXPECT_EQ(limit().limited_by, "cgroup /pod");
  write("cgroup/pod/memory.stat", "anon 1\nfile 900\ninactive_file 500\n");
  EXPECT_EQ(limit().available_bytes, 3500);
}

TEST_F(HostMemoryLimitTest, NumbersThatAreTooLargeAreNoLimit) {
  write("meminfo", "MemAvailable: 9223372036854775807 kB\n");
  write("self", "4:memory:/box\n");
  write("cgroup/memory/box/memory.limit_in_bytes", "9223372036854771712\n");
  write("cgroup/memory/box/memory.usage_in_bytes", "1000\n");
  write("cgroup/memory/box/memory.stat", "total_inactive_file 900000\n");
  EXPECT_GT(limit().available_bytes, std::numeric_limits<int64_t>::max() / 2);
}

TEST_F(HostMemoryLimitTest, IsWhatV1Leaves) {
  write("self", "3:cpu:/x\n4:hugetlb,memory:/box\n");
  write("cgroup/memory/box/memory.limit_in_bytes", "5000\n");
  write("cgroup/memory/box/memory.usage_in_bytes", "5500\n");
  EXPECT_EQ(limit().available_bytes, 0);
  EXPECT_EQ(limit().limited_by, "cgroup /box");
  write("cgroup/memory/box/memory.stat", "total_inactive_file 700\n");
  EXPECT_EQ(limit().available_bytes, 200);
}

TEST_F(HostMemoryLimitTest, IsUnlimitedWhereNothingCanBeRead) {
  rlimit as = {};
  ASSERT_EQ(getrlimit(RLIMIT_AS, &as), 0);
  if (as.rlim_cur != RLIM_INFINITY) GTEST_SKIP() << "started with RLIMIT_AS";
  EXPECT_EQ(limit().available_bytes, std::numeric_limits<int64_t>::max());
  EXPECT_EQ(limit().limited_by, "nothing");
}

TEST_F(HostMemoryLimitTest, IsWhatTheAddressSpaceLeaves) {
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_AS, &before), 0);
  const rlim_t large = rlim_t{1} << 50;
  if (before.rlim_max < large) GTEST_SKIP() << "the hard limit is lower";
  rlimit limited = before;
  limited.rlim_cur = large;
  ASSERT_EQ(setrlimit(RLIMIT_AS, &limited), 0);
  write("statm", "2 1 1 1 0 1 0\n");
  const HostMemoryLimit left = limit();
  ASSERT_EQ(setrlimit(RLIMIT_AS, &before), 0);
  EXPECT_EQ(left.limited_by, "RLIMIT_AS");
  EXPECT_LT(left.available_bytes, int64_t{1} << 50);
  EXPECT_GT(left.available_bytes, (int64_t{1} << 50) - (1 << 20));
}

TEST_F(HostMemoryLimitTest, ReadsThisMachine) {
  EXPECT_GT(host_memory_limit().available_bytes, 0);
}

}  // namespace
}  // namespace ferry
