#include "platform/os/cpu_quota.h"

#include <filesystem>
#include <fstream>

#include "gtest/gtest.h"

namespace ferry {
namespace {

class CpuQuotaTest : public ::testing::Test {
 protected:
  CpuQuotaTest() {
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

  CpuQuotaPaths paths() const { return {root_ / "self", root_ / "cgroup"}; }

  std::filesystem::path root_;
};

TEST_F(CpuQuotaTest, ReadsV2) {
  write("self", "0::/pod/box\n");
  write("cgroup/pod/box/cpu.max", "150000 100000\n");
  EXPECT_EQ(cgroup_cpu_quota(paths()), 1.5);
}

TEST_F(CpuQuotaTest, TakesTheLeastOfTheParents) {
  write("self", "0::/pod/box\n");
  write("cgroup/pod/box/cpu.max", "max 100000\n");
  write("cgroup/pod/cpu.max", "200000 100000\n");
  write("cgroup/cpu.max", "400000 100000\n");
  EXPECT_EQ(cgroup_cpu_quota(paths()), 2.0);
}

TEST_F(CpuQuotaTest, FindsTheRootWhenTheNamespaceHidesThePath) {
  write("self", "0::/../../elsewhere\n");
  write("cgroup/cpu.max", "300000 100000\n");
  EXPECT_EQ(cgroup_cpu_quota(paths()), 3.0);
}

TEST_F(CpuQuotaTest, ReadsV1) {
  write("self", "4:cpuset:/\n3:cpu,cpuacct:/box\n");
  write("cgroup/cpu/box/cpu.cfs_quota_us", "50000\n");
  write("cgroup/cpu/box/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(cgroup_cpu_quota(paths()), 0.5);
}

TEST_F(CpuQuotaTest, IsAbsentWithoutALimit) {
  write("self", "3:cpu:/\n0::/\n");
  write("cgroup/cpu/cpu.cfs_quota_us", "-1\n");
  write("cgroup/cpu/cpu.cfs_period_us", "100000\n");
  write("cgroup/cpu.max", "max 100000\n");
  EXPECT_EQ(cgroup_cpu_quota(paths()), std::nullopt);
  EXPECT_EQ(cgroup_cpu_quota({"/no/such", "/no/such"}), std::nullopt);
}

TEST_F(CpuQuotaTest, ThreadsAreAtLeastOneAndWithinTheQuota) {
  write("self", "0::/\n");
  write("cgroup/cpu.max", "100000 100000\n");
  EXPECT_EQ(default_intra_op_threads(1, paths()), 1);
  write("cgroup/cpu.max", "50000 100000\n");
  EXPECT_EQ(default_intra_op_threads(1, paths()), 1);
  EXPECT_EQ(default_intra_op_threads(1000000), 1);
  EXPECT_GE(default_intra_op_threads(1), default_intra_op_threads(2));
}

}  // namespace
}  // namespace ferry
