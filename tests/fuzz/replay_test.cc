// Runs every fuzz target over its seeds, over inputs that nest deeply, and over
// the same few thousand mutations of the seeds in every run. A target that ends
// the process leaves its input in the test's outputs, NAME.input.

#include <fcntl.h>
#include <google/protobuf/stubs/logging.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/fuzz/fuzz_targets.h"
#include "tests/fuzz/mutator.h"
#include "tests/support/files.h"

namespace ferry {
namespace {

constexpr int kMutations = 3000;
constexpr int kDepth = 50'000;

class ReplayTest : public testing::TestWithParam<FuzzTarget> {
 protected:
  void SetUp() override {
    google::protobuf::SetLogHandler(nullptr);
    const std::string directory =
        runfile(absl::StrCat("tests/fuzz/corpus/", GetParam().name));
    for (const std::string& name : list_directory(directory)) {
      seeds_.push_back(read_file(directory + "/" + name).value_or(""));
    }
    ASSERT_GE(seeds_.size(), 2u) << directory;
    const char* outputs = getenv("TEST_UNDECLARED_OUTPUTS_DIR");
    input_path_ = absl::StrCat(outputs != nullptr ? outputs : test_tmpdir(),
                               "/", GetParam().name, ".input");
    input_file_ = open(input_path_.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0644);
    ASSERT_GE(input_file_, 0) << input_path_;
  }

  // The input stays only if the process does not.
  void TearDown() override {
    close(input_file_);
    unlink(input_path_.c_str());
  }

  void run(const std::string& input) {
    ASSERT_EQ(pwrite(input_file_, input.data(), input.size(), 0),
              static_cast<ssize_t>(input.size()));
    ASSERT_EQ(ftruncate(input_file_, static_cast<off_t>(input.size())), 0);
    GetParam().run(input);
  }

  std::vector<std::string> seeds_;

 private:
  std::string input_path_;
  int input_file_ = -1;
};

TEST_P(ReplayTest, Seeds) {
  run("");
  for (const std::string& seed : seeds_) run(seed);
}

TEST_P(ReplayTest, DeepNesting) {
  for (const char* opening :
       {"[", "{", "(", "<", "{\"a\":", "[{\"a\":", "pipelines {", "limits {",
        "spec {", "\x0A\x7F", "\x0B"}) {
    std::string input;
    for (int i = 0; i < kDepth; ++i) input += opening;
    run(input);
  }
  std::string list = "{\"_class_name\":\"X\",\"shift\":";
  list += std::string(kDepth, '[') + std::string(kDepth, ']') + "}";
  run(list);
}

TEST_P(ReplayTest, Mutations) {
  Mutator mutator(seeds_, 1);
  for (int i = 0; i < kMutations; ++i) run(mutator.next());
}

INSTANTIATE_TEST_SUITE_P(All, ReplayTest, testing::ValuesIn(fuzz_targets()),
                         [](const testing::TestParamInfo<FuzzTarget>& info) {
                           return std::string(info.param.name);
                         });

}  // namespace
}  // namespace ferry
