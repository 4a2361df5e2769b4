#include "platform/os/atomic_file.h"

#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ferry {
namespace {

using ::testing::HasSubstr;

class AtomicFileTest : public ::testing::Test {
 protected:
  AtomicFileTest() {
    const std::string name =
        ::testing::UnitTest::GetInstance()->current_test_info()->name();
    directory_ = std::filesystem::path(::testing::TempDir()) / name;
    std::filesystem::remove_all(directory_);
    std::filesystem::create_directories(directory_);
  }

  static std::string read(const std::filesystem::path& path) {
    std::stringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  }

  size_t files() const {
    size_t count = 0;
    for (const auto& entry : std::filesystem::directory_iterator(directory_)) {
      count += entry.exists() ? 1 : 0;
    }
    return count;
  }

  std::filesystem::path directory_;
};

TEST_F(AtomicFileTest, WritesAndReplaces) {
  const std::filesystem::path path = directory_ / "file";
  ASSERT_TRUE(write_file_atomically(path, "one").ok());
  EXPECT_EQ(read(path), "one");
  const std::string large(1 << 20, 'x');
  ASSERT_TRUE(write_file_atomically(path, large).ok());
  EXPECT_EQ(read(path), large);
  EXPECT_EQ(files(), 1u);
}

TEST_F(AtomicFileTest, HasThePermissionsOfANewFile) {
  const mode_t old = umask(027);
  const std::filesystem::path path = directory_ / "file";
  ASSERT_TRUE(write_file_atomically(path, "").ok());
  umask(old);
  struct stat info = {};
  ASSERT_EQ(stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0640u);
}

TEST_F(AtomicFileTest, NamesThePathAndLeavesNothing) {
  const std::filesystem::path path = directory_ / "taken";
  std::filesystem::create_directories(path / "child");
  const absl::Status status = write_file_atomically(path, "x");
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(std::string(status.message()), HasSubstr(path.string()));
  EXPECT_EQ(files(), 1u);
  const absl::Status missing =
      write_file_atomically(directory_ / "no" / "such", "x");
  EXPECT_EQ(missing.code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace ferry
