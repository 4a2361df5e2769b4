#include "platform/device/cpu/cpu_platform.h"

#include <gtest/gtest.h>

#include <fstream>

namespace ferry {
namespace {

class CpuPlatformTest : public testing::Test {
 protected:
  void SetUp() override {
    files_.meminfo = testing::TempDir() + "/meminfo";
    files_.cgroup = testing::TempDir() + "/cgroup";
    std::filesystem::remove_all(files_.cgroup);
    std::filesystem::create_directories(files_.cgroup);
    write(files_.meminfo,
          "MemTotal:       1000 kB\nMemFree:  5 kB\nMemAvailable:  600 kB\n");
  }

  static void write(const std::filesystem::path& path, const char* text) {
    std::ofstream(path) << text;
  }

  CpuPlatform::Files files_;
};

TEST_F(CpuPlatformTest, ReportsTheMachineWithoutAControlGroup) {
  const auto info = CpuPlatform(files_).memory_info();
  ASSERT_TRUE(info.ok()) << info.status();
  EXPECT_EQ(info->total_bytes, 1000 * 1024);
  EXPECT_EQ(info->free_bytes, 600 * 1024);
}

TEST_F(CpuPlatformTest, UnlimitedControlGroupChangesNothing) {
  write(files_.cgroup / "memory.max", "max\n");
  const auto info = CpuPlatform(files_).memory_info();
  ASSERT_TRUE(info.ok()) << info.status();
  EXPECT_EQ(info->total_bytes, 1000 * 1024);
}

TEST_F(CpuPlatformTest, ControlGroupBoundsBoth) {
  write(files_.cgroup / "memory.max", "512000\n");
  write(files_.cgroup / "memory.current", "500000\n");
  const auto info = CpuPlatform(files_).memory_info();
  ASSERT_TRUE(info.ok()) << info.status();
  EXPECT_EQ(info->total_bytes, 512000);
  EXPECT_EQ(info->free_bytes, 12000);
}

TEST_F(CpuPlatformTest, OverfullControlGroupHasNothingFree) {
  write(files_.cgroup / "memory.max", "512000\n");
  write(files_.cgroup / "memory.current", "600000\n");
  const auto info = CpuPlatform(files_).memory_info();
  ASSERT_TRUE(info.ok()) << info.status();
  EXPECT_EQ(info->free_bytes, 0);
}

TEST_F(CpuPlatformTest, NamesAFileThatTellsNothing) {
  write(files_.meminfo, "MemTotal: 1 kB\n");
  const auto info = CpuPlatform(files_).memory_info();
  EXPECT_NE(info.status().message().find(files_.meminfo.string()),
            std::string::npos);
}

TEST_F(CpuPlatformTest, ThisMachineHasMemory) {
  const auto info = CpuPlatform().memory_info();
  ASSERT_TRUE(info.ok()) << info.status();
  EXPECT_GT(info->free_bytes, 0);
  EXPECT_GE(info->total_bytes, info->free_bytes);
}

TEST_F(CpuPlatformTest, CannotOffloadAndSaysWhy) {
  EXPECT_FALSE(CpuPlatform().supports_cpu_offload());
  EXPECT_FALSE(CpuPlatform().offload_unsupported_reason().empty());
  EXPECT_EQ(CpuPlatform().device(), nullptr);
}

}  // namespace
}  // namespace ferry
