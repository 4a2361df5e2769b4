#include "pipelines/safetensors/weight_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "pipelines/safetensors/testing/safetensors_writer.h"

namespace ferry {
namespace {

using testing::HasSubstr;

class WeightFilesTest : public testing::Test {
 protected:
  WeightFilesTest()
      : directory_(std::filesystem::path(testing::TempDir()) / "weights") {
    std::filesystem::remove_all(directory_);
    std::filesystem::create_directories(directory_ / "dit");
  }

  void write(const std::string& file, const std::vector<std::string>& names,
             int odd_bytes = 0) {
    std::vector<TensorToWrite> tensors;
    for (const std::string& name : names) {
      tensors.push_back({name, "U8", {4}, "data"});
    }
    ASSERT_TRUE(write_safetensors(directory_ / file, tensors, odd_bytes).ok());
  }

  void write_text(const std::string& file, const std::string& text) {
    std::ofstream(directory_ / file) << text;
  }

  std::string error_of(const std::string& file) {
    const auto tensors = read_weight_files(directory_, file);
    EXPECT_FALSE(tensors.ok());
    return std::string(tensors.status().message());
  }

  const std::filesystem::path directory_;
};

TEST_F(WeightFilesTest, MapsAFile) {
  write("dit/m.safetensors", {"a", "b"}, 3);
  const auto tensors = read_weight_files(directory_, "dit/m.safetensors");
  ASSERT_TRUE(tensors.ok()) << tensors.status();
  ASSERT_EQ(tensors->size(), 2u);
  EXPECT_EQ((*tensors)[1].entry.name, "b");
  EXPECT_EQ(absl::string_view((*tensors)[1].data(), 4), "data");
  EXPECT_EQ((*tensors)[0].file, (*tensors)[1].file);
  EXPECT_EQ((*tensors)[0].file->name(), "dit/m.safetensors");
}

TEST_F(WeightFilesTest, FollowsSymbolicLinks) {
  write("blob", {"a"});
  std::filesystem::create_symlink(directory_ / "blob",
                                  directory_ / "dit/m.safetensors");
  EXPECT_TRUE(read_weight_files(directory_, "dit/m.safetensors").ok());
}

TEST_F(WeightFilesTest, NamesAFileThatCannotBeRead) {
  EXPECT_EQ(read_weight_files(directory_, "no.safetensors").status(),
            absl::NotFoundError("no.safetensors: cannot be opened: No such "
                                "file or directory"));
  EXPECT_EQ(error_of("dit"), "dit: is no regular file");
  ASSERT_EQ(mkfifo((directory_ / "pipe").c_str(), 0600), 0);
  EXPECT_EQ(error_of("pipe"), "pipe: is no regular file");
  write_text("empty.safetensors", "");
  EXPECT_EQ(error_of("empty.safetensors"),
            "empty.safetensors: is truncated: it has 0 bytes, and its header's "
            "length takes 8");
}

TEST_F(WeightFilesTest, NamesATruncatedFile) {
  write("m.safetensors", {"a", "b"});
  std::filesystem::resize_file(
      directory_ / "m.safetensors",
      std::filesystem::file_size(directory_ / "m.safetensors") - 1);
  EXPECT_EQ(error_of("m.safetensors"),
            "m.safetensors: tensor \"b\": ends at byte 8 of the data, of which "
            "the file holds 7: it is truncated, or not this one");
}

TEST_F(WeightFilesTest, ReadsTheFilesOfAnIndex) {
  write("dit/m-1.safetensors", {"a", "b"});
  write("dit/m-2.safetensors", {"c"});
  write_text("dit/m.safetensors.index.json",
             R"({"weight_map": {"a": "m-1.safetensors", "b": "m-1.safetensors",
                                "c": "m-2.safetensors"}})");
  const auto tensors =
      read_weight_files(directory_, "dit/m.safetensors.index.json");
  ASSERT_TRUE(tensors.ok()) << tensors.status();
  ASSERT_EQ(tensors->size(), 3u);
  EXPECT_EQ((*tensors)[2].entry.name, "c");
  EXPECT_EQ((*tensors)[2].file->name(), "dit/m-2.safetensors");
}

TEST_F(WeightFilesTest, NamesAllThatTheFilesOfAnIndexLack) {
  write("dit/m-1.safetensors", {"a", "surplus"});
  write_text("dit/m-2.safetensors", "x");
  write_text("dit/i.safetensors.index.json",
             R"({"weight_map": {"a": "m-1.safetensors", "b": "m-1.safetensors",
                                "c": "m-2.safetensors",
                                "d": "m-3.safetensors"}})");
  EXPECT_EQ(
      error_of("dit/i.safetensors.index.json"),
      "dit/m-1.safetensors: tensor \"surplus\" is not in it by "
      "dit/i.safetensors.index.json; dit/m-1.safetensors: lacks tensor \"b\", "
      "which is in it by dit/i.safetensors.index.json; dit/m-2.safetensors: is "
      "truncated: it has 1 bytes, and its header's length takes 8 (named by "
      "dit/i.safetensors.index.json); dit/m-3.safetensors: cannot be opened: "
      "No such file or directory (named by dit/i.safetensors.index.json)");
}

TEST_F(WeightFilesTest, AnIndexStaysInItsFolder) {
  write_text("dit/i.safetensors.index.json",
             R"({"weight_map": {"a": "../m.safetensors"}})");
  EXPECT_THAT(error_of("dit/i.safetensors.index.json"),
              HasSubstr("must be a relative path without"));
}

}  // namespace
}  // namespace ferry
