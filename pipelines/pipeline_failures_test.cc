// What a package's methods throw, and what they return, never ends the process:
// it is an error of the load or of the generation, which names the method, and
// the next request runs.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "pipelines/generation.h"
#include "pipelines/generation_observer.h"
#include "pipelines/pipeline.h"
#include "pipelines/testing/tiny_pipeline.h"
#include "pipelines/testing/tiny_pipeline_options.h"
#include "platform/base/error_info.h"

namespace ferry {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

class PictureObserver final : public GenerationObserver {
 public:
  bool is_cancelled() override { return false; }
  void on_progress(const v1::Progress& /*progress*/) override {}
  absl::Status on_preview(v1::Preview /*preview*/) override {
    return absl::OkStatus();
  }
  absl::Status on_output(const v1::OutputInfo& /*info*/,
                         std::string data) override {
    pictures.push_back(std::move(data));
    return absl::OkStatus();
  }

  std::vector<std::string> pictures;
};

// A root method with a statement of its own at the top.
std::string method_source(const std::string& method,
                          const std::string& statement) {
  const std::string body = absl::StrCat("    ", statement, "\n");
  if (method == "encode_prompt") {
    return absl::StrCat(
        "def encode_prompt(self, ids) -> Dict[str, Tensor]:\n", body,
        "    return {\"text\": self.text_encoder.forward(ids)}\n");
  }
  if (method == "denoise") {
    return absl::StrCat(
        "def denoise(self, latents, timestep, "
        "conditioning: Dict[str, Tensor]) -> Tensor:\n",
        body, "    return latents\n");
  }
  if (method == "decode") {
    return absl::StrCat("def decode(self, latents) -> Tensor:\n", body,
                        "    return self.vae.forward(latents)\n");
  }
  return absl::StrCat(
      "def latent_shape(self, batch: int, height: int, width: int, "
      "frames: int) -> List[int]:\n",
      body, "    return [batch, 4, height // 8, width // 8]\n");
}

class PipelineFailuresTest : public testing::Test {
 protected:
  PipelineFailuresTest()
      : directory_(std::filesystem::path(testing::TempDir()) / "failures") {
    std::filesystem::remove_all(directory_);
  }

  void write(const std::string& method, const std::string& source) {
    TinyPipelineOptions options;
    options.method_sources[method] = source;
    options.scheduler = "";
    ASSERT_TRUE(write_tiny_pipeline(directory_, options).ok());
  }

  static v1::GenerationSpec make_spec(const Pipeline& pipeline,
                                      const std::string& prompt) {
    v1::GenerationSpec spec = pipeline.description().defaults();
    spec.set_prompt(prompt);
    spec.set_seed(1);
    spec.set_num_inference_steps(1);
    return spec;
  }

  const std::filesystem::path directory_;
};

TEST_F(PipelineFailuresTest, AWarmUpThatThrowsIsALoadError) {
  const std::pair<std::string, std::string> statements[] = {
      {"assert False", "AssertionError:"},
      {"assert False, \"told: to\"", "AssertionError: told: to"},
      {"assert len([0] * (1 << 60)) > 0", "vector::reserve"},
      {"assert [1, 2][7] > 0", "list index out of range"},
      {"assert float(torch.zeros([2]).view([3]).sum()) > 0",
       "is invalid for input"},
  };
  for (const char* method :
       {"encode_prompt", "denoise", "decode", "latent_shape"}) {
    for (const auto& [statement, text] : statements) {
      write(method, method_source(method, statement));
      const absl::Status status = Pipeline::load(directory_, {}).status();
      EXPECT_EQ(status.code(), absl::StatusCode::kInternal) << status;
      EXPECT_THAT(
          std::string(status.message()),
          StartsWith(absl::StrCat("pipeline.pt: warm-up: ", method, ": ")));
      EXPECT_THAT(std::string(status.message()), HasSubstr(text));
    }
  }
}

TEST_F(PipelineFailuresTest, AnAbsurdSizeIsALackOfMemoryOfTheLoad) {
  for (const char* method : {"encode_prompt", "denoise", "decode"}) {
    write(method,
          method_source(method, "assert torch.empty([1 << 60]).numel() > 0"));
    const absl::Status status = Pipeline::load(directory_, {}).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
    EXPECT_THAT(std::string(status.message()),
                StartsWith(absl::StrCat("pipeline.pt: warm-up: ", method)));
  }
}

// The prompt decides: a long one has more tokens that are no padding.
TEST_F(PipelineFailuresTest, AfterAGenerationThatThrowsTheNextOneIsTheSame) {
  write("encode_prompt",
        method_source("encode_prompt",
                      "assert int(torch.sum(torch.ne(ids, ids[0][-1]))) < 12"));
  const auto pipeline = Pipeline::load(directory_, {});
  ASSERT_TRUE(pipeline.ok()) << pipeline.status();
  std::vector<std::string> pictures;
  for (int i = 0; i < 2; ++i) {
    PictureObserver observer;
    ASSERT_TRUE(
        (*pipeline)->generate(make_spec(**pipeline, "a"), observer).ok());
    pictures.push_back(observer.pictures.at(0));
    const absl::Status status =
        (*pipeline)
            ->generate(make_spec(**pipeline, std::string(15, 'b')), observer)
            .status();
    EXPECT_EQ(status.message(), "encode_prompt: AssertionError:");
    EXPECT_EQ(get_error_info(status)->reason, "INTERNAL");
  }
  EXPECT_EQ(pictures[0], pictures[1]);
}

// Also where dynamic shifting computes with them, at load and for a request.
TEST_F(PipelineFailuresTest, AShapeThatIsNoneIsNamed) {
  const std::string head =
      "def latent_shape(self, batch: int, height: int, width: int, "
      "frames: int) -> List[int]:\n    return ";
  for (const char* shape :
       {"[batch, 4, -1, width // 8]", "[batch, 4, 0, width // 8]",
        "[batch, -4, 2, 2]", "[batch, 4, 1 << 62, 1 << 62]", "[batch]",
        "[batch + 1, 4, 2, 2]", "[batch, 4, 1 << 31, 2]"}) {
    for (const bool is_dynamic : {false, true}) {
      SCOPED_TRACE(absl::StrCat(shape, is_dynamic ? ", dynamic" : ""));
      write("latent_shape", absl::StrCat(head, shape, "\n"));
      if (is_dynamic) {
        std::ofstream(directory_ / "scheduler/scheduler_config.json")
            << "{\"_class_name\": \"FlowMatchEulerDiscreteScheduler\", "
               "\"use_dynamic_shifting\": true}";
      }
      const absl::Status status = Pipeline::load(directory_, {}).status();
      EXPECT_FALSE(status.ok());
      EXPECT_THAT(std::string(status.message()),
                  StartsWith("pipeline.pt: warm-up: latent_shape: returned ["));
    }
  }
}

TEST(GenerationDeathTest, RunsOnce) {
  PipelineParts parts;
  PictureObserver observer;
  const v1::GenerationSpec spec;
  Generation generation(parts, spec, observer);
  // No number of pictures is in its limits.
  EXPECT_FALSE(generation.run().ok());
  EXPECT_DEATH((void)generation.run(), "check failed: !std::exchange");
}

}  // namespace
}  // namespace ferry
