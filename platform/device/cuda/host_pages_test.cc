#include "platform/device/cuda/host_pages.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "platform/device/mapping.h"

namespace ferry {
namespace {

class NumaNodeTest : public testing::Test {
 protected:
  void SetUp() override {
    const auto folder = sysfs_ / "bus/pci/devices/0000:65:00.0";
    std::filesystem::create_directories(folder);
    file_ = folder / "numa_node";
  }

  const std::filesystem::path sysfs_ =
      std::filesystem::path(testing::TempDir()) / "numa";
  std::filesystem::path file_;
};

TEST_F(NumaNodeTest, IsTheOneOfTheDevice) {
  std::ofstream(file_) << "1\n";
  EXPECT_EQ(find_numa_node(sysfs_, "0000:65:00.0"), 1);
}

TEST_F(NumaNodeTest, IsUnknownWhereTheSystemDoesNotSay) {
  EXPECT_EQ(find_numa_node(sysfs_, "0000:66:00.0"), std::nullopt);
  for (const char* text : {"-1\n", "", "x", "1024\n"}) {
    std::ofstream(file_) << text;
    EXPECT_EQ(find_numa_node(sysfs_, "0000:65:00.0"), std::nullopt) << text;
  }
}

TEST_F(NumaNodeTest, ANodeThatIsNotThereIsAnError) {
  const MemoryFile file = *MemoryFile::create("test", round_to_pages(1));
  const Mapping mapping =
      *Mapping::map(file.fd(), 0, round_to_pages(1), PROT_READ | PROT_WRITE);
  EXPECT_EQ(prefer_numa_node(mapping.data(), mapping.bytes(), 1023).code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST(PopulatePages, GivesMemoryToAllOfThem) {
  // More than one piece, so that threads share the work.
  const int64_t bytes = (int64_t{160} << 20) + round_to_pages(1);
  for (const int threads : {1, 3}) {
    const MemoryFile file = *MemoryFile::create("test", bytes);
    const Mapping mapping =
        *Mapping::map(file.fd(), 0, bytes, PROT_READ | PROT_WRITE);
    ASSERT_TRUE(populate_pages(mapping.data(), bytes, threads).ok());
    std::vector<unsigned char> present(
        static_cast<size_t>(bytes / round_to_pages(1)));
    ASSERT_EQ(
        ::mincore(mapping.data(), static_cast<size_t>(bytes), present.data()),
        0);
    EXPECT_TRUE(std::all_of(present.begin(), present.end(),
                            [](unsigned char page) { return page & 1; }));
  }
}

TEST(PopulatePages, SaysWhyItCannot) {
  void* data = nullptr;
  {
    const MemoryFile file = *MemoryFile::create("test", round_to_pages(1));
    const Mapping mapping =
        *Mapping::map(file.fd(), 0, round_to_pages(1), PROT_READ | PROT_WRITE);
    data = mapping.data();
    constexpr int kPopulateWrite = 23;
    if (::madvise(data, 1, kPopulateWrite) != 0) {
      GTEST_SKIP() << "this kernel populates by touching";
    }
  }
  // Nothing is mapped there any more.
  const absl::Status status = populate_pages(data, round_to_pages(1), 1);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
}

}  // namespace
}  // namespace ferry
