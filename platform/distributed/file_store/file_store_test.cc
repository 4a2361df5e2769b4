#include "platform/distributed/file_store/file_store.h"

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "platform/distributed/store.h"
#include "platform/distributed/testing/store_conformance.h"

namespace ferry {
namespace {

using ::testing::HasSubstr;

class Directory {
 public:
  Directory() : path_(absl::StrCat(testing::TempDir(), "/store.XXXXXX")) {
    EXPECT_NE(::mkdtemp(path_.data()), nullptr);
  }
  ~Directory() { std::filesystem::remove_all(path_); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

class FileViews final : public StoreViews {
 public:
  Store& view(int rank) override { return rank == 0 ? first_ : second_; }

 private:
  Directory directory_;
  FileStore first_{directory_.path()};
  FileStore second_{directory_.path()};
};

INSTANTIATE_TEST_SUITE_P(File, StoreConformanceTest, testing::Values([] {
                           return std::make_unique<FileViews>();
                         }));

TEST(FileStoreTest, AKeyThatIsNoFileNameIsRefused) {
  const Directory directory;
  FileStore store(directory.path());
  EXPECT_TRUE(store.set(std::string(230, 'k'), "value").ok());
  EXPECT_EQ(store.set(std::string(240, 'k'), "value").code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(
      store.get(std::string(240, 'k'), absl::ZeroDuration()).status().code(),
      absl::StatusCode::kInvalidArgument);
}

TEST(FileStoreTest, ADirectoryThatIsGoneIsNamed) {
  FileStore store("/no/such/directory");
  for (const absl::Status& status :
       {store.set("key", "value"), store.get("key", absl::Hours(1)).status(),
        store.add("key", 1).status()}) {
    EXPECT_EQ(status.code(), absl::StatusCode::kNotFound) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("/no/such/directory"));
  }
}

TEST(FileStoreTest, LeavesNothingButItsFiles) {
  const Directory directory;
  FileStore store(directory.path());
  for (int i = 0; i < 5; ++i) {
    ASSERT_TRUE(store.set("key", absl::StrCat(i)).ok());
    ASSERT_TRUE(store.add("number", 1).ok());
  }
  int files = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(directory.path())) {
    files += entry.exists() ? 1 : 0;
  }
  // The value, the number and the lock.
  EXPECT_EQ(files, 3);
}

}  // namespace
}  // namespace ferry
