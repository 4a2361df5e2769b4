#include "pipelines/safetensors/index.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"

namespace ferry {
namespace {

TEST(SafetensorsIndex, MapsTensorsToFiles) {
  const auto index = parse_safetensors_index(
      R"({"metadata": {"total_size": 12, "extra": {"a": [1]}},
          "weight_map": {"a": "m-1.safetensors", "b": "x/m-2.safetensors"}})");
  ASSERT_TRUE(index.ok()) << index.status();
  EXPECT_EQ(*index, (std::map<std::string, std::string>{
                        {"a", "m-1.safetensors"}, {"b", "x/m-2.safetensors"}}));
}

TEST(SafetensorsIndex, NamesWhatIsWrong) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "is no JSON from byte 1 on"},
      {"[]", "is no JSON object"},
      {"{\"weight_map\": \"\xFF\"}", "is no UTF-8"},
      {"version https://git-lfs.github.com/spec/v1\noid sha256:0\n",
       "is a Git LFS pointer; fetch the file with git lfs pull"},
      {"\xEF\xBB\xBF{}",
       "begins with a byte order mark (BOM) of UTF-8; save it as UTF-8 without "
       "one"},
      {std::string("{}\0", 3), "is no JSON from byte 3 on: it holds a NUL"},
      {"{}", "has no weight_map (an object: tensor to file)"},
      {"{\"weight_map\": []}", "has no weight_map (an object: tensor to file)"},
      {"{\"weight_map\": {}}", "weight_map: must name a tensor"},
      {"{\"weight_map\": {\"a\": 1}}", "weight_map: \"a\" names no file"},
      {"{\"weight_map\": {\"a\": \"m.safetensors\", \"a\": \"n.safetensors\"}}",
       "has the key \"a\" twice"},
      {"{\"weight_map\": {\"a\": \"../m.safetensors\", \"b\": \"/m\"}}",
       "weight_map: file \"../m.safetensors\" must be a relative path without "
       "\"..\"; weight_map: file \"/m\" must be a relative path without "
       "\"..\""},
      {"{\"weight_map\": {\"a\": \"m.bin\", \"b\": \"m.bin\"}}",
       "weight_map: file \"m.bin\" pickled weights are refused, since to load "
       "them is to run them; convert them to safetensors"},
      {"{\"weight_map\": {\"a\": \"m.gguf\"}}",
       "weight_map: file \"m.gguf\" must be a .safetensors file"},
  };
  for (const auto& [text, told] : cases) {
    const auto index = parse_safetensors_index(text);
    EXPECT_EQ(index.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(index.status().message(), told);
  }
}

TEST(SafetensorsIndex, PickledFilesAreKnownByTheirNames) {
  for (const char* file :
       {"a.bin", "a.ckpt", "A.CKPT", "a.pkl", "a.pickle", "a.pt", "a.pth"}) {
    EXPECT_TRUE(is_pickled_weight_file(file)) << file;
  }
  EXPECT_FALSE(is_pickled_weight_file("a.bin.safetensors"));
  EXPECT_EQ(weight_file_defect("a/b.safetensors"), "");
  EXPECT_NE(weight_file_defect(std::string("a\0.safetensors", 14)), "");
  EXPECT_NE(weight_file_defect(""), "");
}

}  // namespace
}  // namespace ferry
