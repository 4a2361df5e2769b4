// Packages whose weights are in safetensors files generate what packages with
// the weights inside do.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_replace.h"
#include "pipelines/generation_observer.h"
#include "pipelines/pipeline.h"
#include "pipelines/testing/tiny_pipeline.h"
#include "pipelines/testing/tiny_pipeline_options.h"
#include "platform/base/sha256.h"

namespace ferry {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

class DigestObserver : public GenerationObserver {
 public:
  bool is_cancelled() override { return false; }
  void on_progress(const v1::Progress&) override {}
  absl::Status on_preview(v1::Preview) override { return absl::OkStatus(); }
  absl::Status on_output(const v1::OutputInfo&, std::string bytes) override {
    digest = sha256_hex(bytes);
    return absl::OkStatus();
  }

  std::string digest;
};

class CodeOnlyTest : public testing::Test {
 protected:
  CodeOnlyTest()
      : directory_(std::filesystem::path(testing::TempDir()) / "code_only") {}

  void write(const TinyPipelineOptions& options) {
    std::filesystem::remove_all(directory_);
    ASSERT_TRUE(write_tiny_pipeline(directory_, options).ok());
  }

  // Of two pictures, one after the other.
  std::vector<std::string> digests(const TinyPipelineOptions& options) {
    write(options);
    const auto pipeline = Pipeline::load(directory_, {});
    EXPECT_TRUE(pipeline.ok()) << pipeline.status();
    if (!pipeline.ok()) return {};
    std::vector<std::string> all;
    for (int seed = 1; seed <= 2; ++seed) {
      v1::GenerationSpec spec = (*pipeline)->description().defaults();
      spec.set_prompt("a red circle");
      spec.set_seed(seed);
      spec.mutable_output()->set_format(v1::OutputSpec::FORMAT_RAW_RGB8);
      DigestObserver observer;
      EXPECT_TRUE((*pipeline)->generate(spec, observer).ok());
      all.push_back(observer.digest);
    }
    return all;
  }

  std::string load_error() {
    const absl::Status status = Pipeline::load(directory_, {}).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    return std::string(status.message());
  }

  void edit_manifest(const std::string& from, const std::string& to) {
    const std::filesystem::path path = directory_ / "ferry.txtpb";
    std::stringstream text;
    text << std::ifstream(path).rdbuf();
    const std::string edited = absl::StrReplaceAll(text.str(), {{from, to}});
    ASSERT_NE(edited, text.str());
    std::ofstream(path) << edited;
  }

  const std::filesystem::path directory_;
};

TEST_F(CodeOnlyTest, GeneratesWhatThePackageWithItsWeightsInsideDoes) {
  std::vector<std::pair<std::string, TinyPipelineOptions>> pipelines(7);
  pipelines[0].first = "scripted";
  pipelines[1].first = "traced";
  pipelines[1].second.traced = true;
  pipelines[2].first = "two DiTs";
  pipelines[2].second.dits = 2;
  pipelines[3].first = "half";
  pipelines[3].second.half_weights = true;
  pipelines[4].first = "tied";
  pipelines[4].second.tied = true;
  pipelines[5].first = "written";
  pipelines[5].second.writes_parameter = true;
  pipelines[6].first = "ballast";
  pipelines[6].second.ballast_bytes = 100'000;
  for (auto& [name, options] : pipelines) {
    SCOPED_TRACE(name);
    const std::vector<std::string> expected = digests(options);
    options.code_only = true;
    EXPECT_EQ(digests(options), expected);
    options.sharded = true;
    EXPECT_EQ(digests(options), expected) << "sharded";
    for (const int odd_bytes : {1, 8}) {
      options.odd_bytes = odd_bytes;
      EXPECT_EQ(digests(options), expected) << "unaligned by " << odd_bytes;
    }
  }
}

TEST_F(CodeOnlyTest, TheArchiveIsSmall) {
  TinyPipelineOptions options;
  options.code_only = true;
  options.ballast_bytes = 1 << 20;
  write(options);
  // The root's buffer of 256 KiB is in it.
  EXPECT_LT(std::filesystem::file_size(directory_ / "pipeline.pt"), 400'000u);
  EXPECT_GT(std::filesystem::file_size(
                directory_ / "transformer/diffusion_pytorch_model.safetensors"),
            3u << 20);
}

TEST_F(CodeOnlyTest, NamesWhatIsWrongWithTheFiles) {
  TinyPipelineOptions options;
  options.code_only = true;
  const std::string vae = "vae/diffusion_pytorch_model.safetensors";
  const std::string dit = "transformer/diffusion_pytorch_model.safetensors";
  write(options);
  std::filesystem::remove(directory_ / vae);
  std::filesystem::resize_file(directory_ / dit, 1000);
  const std::string error = load_error();
  EXPECT_THAT(error, HasSubstr(vae + ": cannot be opened: No such file"));
  EXPECT_THAT(error, HasSubstr(dit + ": tensor "));
  EXPECT_THAT(error, HasSubstr(": it is truncated"));

  write(options);
  std::filesystem::copy_file(directory_ / vae, directory_ / dit,
                             std::filesystem::copy_options::overwrite_existing);
  EXPECT_THAT(load_error(),
              StartsWith(dit + ": tensor \"weight\": pipeline.pt has no "
                               "parameter \"transformer.weight\""));
  EXPECT_THAT(load_error(),
              HasSubstr("pipeline.pt: parameter transformer.proj_in has no "
                        "values, and no file of the manifest's weights holds"));
}

TEST_F(CodeOnlyTest, TiesAreByName) {
  TinyPipelineOptions options;
  options.code_only = true;
  options.tied = true;
  write(options);
  edit_manifest("tied_parameters {", "# tied_parameters {");
  EXPECT_EQ(load_error(),
            "pipeline.pt: parameter transformer.blocks.1.bias has no values, "
            "and no file of the manifest's weights holds it");
}

TEST_F(CodeOnlyTest, OtherTypesNeedAComputeType) {
  TinyPipelineOptions options;
  options.code_only = true;
  options.half_weights = true;
  write(options);
  // The archive's placeholders are of the files' type.
  edit_manifest("compute_dtype: COMPUTE_DTYPE_FLOAT32",
                "compute_dtype: COMPUTE_DTYPE_BFLOAT16");
  const auto loaded = Pipeline::load(directory_, {});
  EXPECT_TRUE(loaded.ok()) << loaded.status();
}

TEST_F(CodeOnlyTest, PickledWeightsAreRefusedByName) {
  TinyPipelineOptions options;
  options.code_only = true;
  write(options);
  edit_manifest("vae/diffusion_pytorch_model.safetensors",
                "vae/diffusion_pytorch_model.bin");
  EXPECT_EQ(load_error(),
            "ferry.txtpb: weights[1].file: \"vae/diffusion_pytorch_model.bin\""
            ": pickled weights are refused, since to load them is to run them; "
            "convert them to safetensors");
}

}  // namespace
}  // namespace ferry
