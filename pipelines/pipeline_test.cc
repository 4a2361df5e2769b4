#include "pipelines/pipeline.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "pipelines/generation_observer.h"
#include "pipelines/testing/tiny_pipeline.h"
#include "pipelines/testing/tiny_pipeline_options.h"
#include "platform/base/error_info.h"
#include "platform/base/sha256.h"

namespace ferry {
namespace {

// Keeps everything; is cancelled when `cancelled` says so.
class Recorder : public GenerationObserver {
 public:
  bool is_cancelled() override { return cancelled && cancelled(); }
  void on_progress(const v1::Progress& event) override {
    progress.push_back(event);
  }
  absl::Status on_preview(v1::Preview preview) override {
    previews.push_back(std::move(preview));
    return preview_status;
  }
  absl::Status on_output(const v1::OutputInfo& info,
                         std::string bytes) override {
    infos.push_back(info);
    data.push_back(std::move(bytes));
    return output_status;
  }

  int steps() const { return progress.empty() ? 0 : progress.back().step(); }

  std::function<bool()> cancelled;
  absl::Status preview_status;
  absl::Status output_status;
  std::vector<v1::Progress> progress;
  std::vector<v1::Preview> previews;
  std::vector<v1::OutputInfo> infos;
  std::vector<std::string> data;
};

class PipelineTest : public testing::Test {
 protected:
  PipelineTest() : directory_(std::filesystem::path(testing::TempDir()) / "p") {
    std::filesystem::remove_all(directory_);
  }

  absl::StatusOr<std::unique_ptr<Pipeline>> load(
      const TinyPipelineOptions& options) {
    EXPECT_TRUE(write_tiny_pipeline(directory_, options).ok());
    return Pipeline::load(directory_, {});
  }

  static v1::GenerationSpec make_spec(const Pipeline& pipeline,
                                      int64_t seed = 1) {
    v1::GenerationSpec spec = pipeline.description().defaults();
    spec.set_prompt("a red circle");
    spec.set_seed(seed);
    spec.mutable_output()->set_format(v1::OutputSpec::FORMAT_RAW_RGB8);
    return spec;
  }

  // The pictures, which must come.
  static std::vector<std::string> generate(Pipeline& pipeline,
                                           const v1::GenerationSpec& spec) {
    Recorder recorder;
    const auto report = pipeline.generate(spec, recorder);
    EXPECT_TRUE(report.ok()) << report.status();
    return recorder.data;
  }

  const std::filesystem::path directory_;
};

// Largest difference of two pictures' bytes.
int difference(const std::string& a, const std::string& b) {
  if (a.size() != b.size()) return 256;
  int largest = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    largest = std::max(largest, std::abs(static_cast<unsigned char>(a[i]) -
                                         static_cast<unsigned char>(b[i])));
  }
  return largest;
}

TEST_F(PipelineTest, DescribesThePackage) {
  const auto pipeline = load({});
  ASSERT_TRUE(pipeline.ok()) << pipeline.status();
  const v1::Pipeline& description = (*pipeline)->description();
  EXPECT_EQ(description.tasks(0), "text-to-image");
  EXPECT_EQ(description.version(), "tiny");
  const std::vector<std::string> schedulers(description.schedulers().begin(),
                                            description.schedulers().end());
  EXPECT_EQ(schedulers, (std::vector<std::string>{
                            "FlowMatchEulerDiscrete", "UniPCMultistep",
                            "DPMSolverMultistep", "DPMSolverMultistepSDE"}));
  EXPECT_EQ(description.defaults().scheduler(), "FlowMatchEulerDiscrete");
  ASSERT_EQ(description.scheduler_infos_size(), 4);
  for (int i = 0; i < 4; ++i) {
    const v1::SchedulerInfo& info = description.scheduler_infos(i);
    EXPECT_EQ(info.name(), schedulers[i]);
    EXPECT_EQ(info.min_num_inference_steps(), 1);
    EXPECT_EQ(info.custom_sigmas(),
              i < 2 ? v1::SchedulerInfo::CUSTOM_SIGMAS_PER_STEP
                    : v1::SchedulerInfo::CUSTOM_SIGMAS_REFUSED);
  }
  EXPECT_EQ(description.limits().max_sequence_length(), 16);
  EXPECT_EQ(description.defaults().num_inference_steps(), 4);
  EXPECT_EQ(description.defaults().guidance_scale(), 3);
  EXPECT_TRUE(description.defaults().has_negative_prompt());
  EXPECT_EQ(description.defaults().num_images(), 1);
}

// Its files have float16; results may round differently, the picture stays.
TEST_F(PipelineTest, TheDemoComputesInEveryType) {
  std::string expected;
  for (const char* type : {"FLOAT32", "BFLOAT16", "FLOAT16"}) {
    std::filesystem::remove_all(directory_);
    std::filesystem::copy("pipelines/demo/package", directory_,
                          std::filesystem::copy_options::recursive);
    const std::filesystem::path manifest = directory_ / "ferry.txtpb";
    std::ifstream file(manifest);
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    std::filesystem::remove(manifest);
    std::ofstream(manifest) << absl::StrReplaceAll(
        text,
        {{"COMPUTE_DTYPE_FLOAT32", absl::StrCat("COMPUTE_DTYPE_", type)}});
    const auto pipeline = Pipeline::load(directory_, {});
    ASSERT_TRUE(pipeline.ok()) << type << ": " << pipeline.status();
    v1::GenerationSpec spec = make_spec(**pipeline);
    spec.set_num_inference_steps(4);
    const std::vector<std::string> pictures = generate(**pipeline, spec);
    ASSERT_EQ(pictures.size(), 1) << type;
    if (expected.empty()) expected = pictures[0];
    ASSERT_EQ(pictures[0].size(), expected.size());
    int64_t sum = 0;
    for (size_t i = 0; i < expected.size(); ++i) {
      sum += std::abs(static_cast<unsigned char>(pictures[0][i]) -
                      static_cast<unsigned char>(expected[i]));
    }
    EXPECT_LT(static_cast<double>(sum) / expected.size(), 16) << type;
  }
}

TEST_F(PipelineTest, TellsStagesAndStepsInOrder) {
  const auto pipeline = load({});
  ASSERT_TRUE(pipeline.ok()) << pipeline.status();
  v1::GenerationSpec spec = make_spec(**pipeline);
  spec.set_num_images(2);
  Recorder recorder;
  const auto report = (*pipeline)->generate(spec, recorder);
  ASSERT_TRUE(report.ok()) << report.status();
  std::vector<std::pair<int, int>> events;
  double fraction = 0;
  for (const v1::Progress& progress : recorder.progress) {
    events.emplace_back(progress.stage(), progress.step());
    EXPECT_EQ(progress.total_steps(), 4);
    EXPECT_GE(progress.fraction(), fraction);
    fraction = progress.fraction();
  }
  EXPECT_EQ(
      events,
      (std::vector<std::pair<int, int>>{
          {1, 0}, {2, 0}, {2, 1}, {2, 2}, {2, 3}, {2, 4}, {3, 4}, {4, 4}}));
  ASSERT_EQ(recorder.infos.size(), 2u);
  for (int i = 0; i < 2; ++i) {
    const v1::OutputInfo& info = recorder.infos[i];
    EXPECT_EQ(info.index(), i);
    EXPECT_EQ(info.seed(), 1 + i);
    EXPECT_EQ(info.width(), 32);
    EXPECT_EQ(info.height(), 32);
    EXPECT_EQ(info.size_bytes(), 32 * 32 * 3);
    EXPECT_EQ(info.sha256(), sha256_hex(recorder.data[i]));
    EXPECT_EQ(recorder.data[i].size(), 32u * 32 * 3);
  }
  EXPECT_GT(report->timings.denoise().nanos(), 0);
  EXPECT_GT(report->timings.text_encode().nanos(), 0);
  EXPECT_GT(report->timings.vae_decode().nanos(), 0);
  EXPECT_GT(report->timings.encode().nanos(), 0);
  EXPECT_FALSE(report->timings.has_queue());
}

TEST_F(PipelineTest, TheSeedDecidesTheBytes) {
  const auto pipeline = load({});
  ASSERT_TRUE(pipeline.ok()) << pipeline.status();
  const auto first = generate(**pipeline, make_spec(**pipeline, 1));
  EXPECT_EQ(first, generate(**pipeline, make_spec(**pipeline, 1)));
  EXPECT_NE(first, generate(**pipeline, make_spec(**pipeline, 2)));
  const auto again = Pipeline::load(directory_, {});
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(first, generate(**again, make_spec(**again, 1)));
}

TEST_F(PipelineTest, PromptSizeStepsAndScaleCount) {
  const auto pipeline = load({});
  ASSERT_TRUE(pipeline.ok()) << pipeline.status();
  const v1::GenerationSpec base = make_spec(**pipeline);
  const auto picture = generate(**pipeline, base);
  v1::GenerationSpec spec = base;
  spec.set_prompt("another");
  EXPECT_NE(generate(**pipeline, spec), picture);
  spec = base;
  spec.set_negative_prompt("another");
  EXPECT_NE(generate(**pipeline, spec), picture);
  spec = base;
  spec.set_guidance_scale(9);
  EXPECT_NE(generate(**pipeline, spec), picture);
  spec = base;
  spec.set_num_inference_steps(9);
  EXPECT_NE(generate(**pipeline, spec), picture);
  spec = base;
  spec.set_width(64);
  EXPECT_EQ(generate(**pipeline, spec)[0].size(), 64u * 32 * 3);
}

TEST_F(PipelineTest, APictureOfABatchIsThePictureAlone) {
  const auto pipeline = load({});
  ASSERT_TRUE(pipeline.ok()) << pipeline.status();
  v1::GenerationSpec spec = make_spec(**pipeline, 5);
  spec.set_num_images(3);
  const auto batch = generate(**pipeline, spec);
  ASSERT_EQ(batch.size(), 3u);
  for (int i = 0; i < 3; ++i) {
    const auto alone = generate(**pipeline, make_spec(**pipeline, 5 + i));
    // Sums of other batch sizes may be rounded in another order.
    EXPECT_LE(difference(batch[i], alone[0]), 1) << i;
  }
}

TEST_F(PipelineTest, AScaleOfOneIsNoGuidance) {
  const auto pipeline = load({});
  ASSERT_TRUE(pipeline.ok()) << pipeline.status();
  v1::GenerationSpec spec = make_spec(**pipeline);
  spec.set_guidance_scale(1);
  const auto plain = generate(**pipeline, spec);
  spec.set_negative_prompt("without effect");
  Recorder recorder;
  const auto refused = (*pipeline)->generate(spec, recorder).status();
  ASSERT_TRUE(get_error_info(refused).has_value()) << refused;
  EXPECT_EQ(get_error_info(refused)->metadata.at("field"),
            "spec.negative_prompt");
  spec.set_negative_prompt("");
  EXPECT_EQ(generate(**pipeline, spec), plain);
  // The batched pass at a scale next to one agrees with the plain one.
  spec.set_guidance_scale(1 + 1e-9);
  EXPECT_LE(difference(generate(**pipeline, spec)[0], plain[0]), 1);
}

TEST_F(PipelineTest, TracedAndScriptedBlocksMakeTheSamePicture) {
  const auto scripted = load({});
  ASSERT_TRUE(scripted.ok()) << scripted.status();
  const auto expected = generate(**scripted, make_spec(**scripted));
  TinyPipelineOptions options;
  options.traced = true;
  const auto traced = load(options);
  ASSERT_TRUE(traced.ok()) << traced.status();
  EXPECT_LE(difference(generate(**traced, make_spec(**traced))[0], expected[0]),
            1);
}

TEST_F(PipelineTest, TwoDitsTakeTurns) {
  const auto one = load({});
  ASSERT_TRUE(one.ok()) << one.status();
  TinyPipelineOptions options;
  options.dits = 2;
  const auto two = load(options);
  ASSERT_TRUE(two.ok()) << two.status();
  v1::GenerationSpec spec = make_spec(**one);
  // Timestep 1000 only: the second DiT is not asked.
  spec.set_num_inference_steps(1);
  EXPECT_EQ(generate(**two, spec), generate(**one, spec));
  spec.set_num_inference_steps(8);
  EXPECT_NE(generate(**two, spec), generate(**one, spec));
}

TEST_F(PipelineTest, EveryKindOfGuidanceRuns) {
  for (const char* guidance : {"GUIDANCE_NONE", "GUIDANCE_EMBEDDED"}) {
    TinyPipelineOptions options;
    options.guidance = guidance;
    options.attention_mask = true;
    options.half_weights = true;
    const auto pipeline = load(options);
    ASSERT_TRUE(pipeline.ok()) << pipeline.status();
    v1::GenerationSpec spec = make_spec(**pipeline);
    const auto picture = generate(**pipeline, spec);
    Recorder recorder;
    EXPECT_FALSE((*pipeline)->description().defaults().has_negative_prompt());
    spec.set_negative_prompt("");
    EXPECT_EQ((*pipeline)->generate(spec, recorder).status().code(),
              absl::StatusCode::kInvalidArgument);
    spec.clear_negative_prompt();
    spec.set_guidance_scale(5);
    if (options.guidance == "GUIDANCE_EMBEDDED") {
      EXPECT_NE(generate(**pipeline, spec), picture);
    } else {
      EXPECT_EQ((*pipeline)->generate(spec, recorder).status().code(),
                absl::StatusCode::kInvalidArgument);
    }
  }
}

TEST_F(PipelineTest, ACancelEndsItBetweenSteps) {
  const auto pipeline = load({});
  ASSERT_TRUE(pipeline.ok()) << pipeline.status();
  const v1::GenerationSpec spec = make_spec(**pipeline);
  const auto expected = generate(**pipeline, spec);
  Recorder recorder;
  recorder.cancelled = [&] { return recorder.steps() == 2; };
  const auto status = (*pipeline)->generate(spec, recorder).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(recorder.steps(), 2);
  EXPECT_TRUE(recorder.data.empty());
  EXPECT_EQ(generate(**pipeline, spec), expected);
}

TEST_F(PipelineTest, NonFiniteLatentsNameTheStep) {
  TinyPipelineOptions options;
  // Four steps at 1000, 667, 334, 1: the third is the first below 600.
  options.nan_below_timestep = 600;
  const auto pipeline = load(options);
  ASSERT_TRUE(pipeline.ok()) << pipeline.status();
  Recorder recorder;
  const auto status =
      (*pipeline)->generate(make_spec(**pipeline), recorder).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  const auto info = get_error_info(status);
  ASSERT_TRUE(info.has_value());
  EXPECT_EQ(info->reason, "NON_FINITE_OUTPUT");
  EXPECT_EQ(info->metadata.at("step"), "3");
  EXPECT_TRUE(absl::StrContains(status.message(), "step 3")) << status;
  EXPECT_TRUE(recorder.data.empty());
}

TEST_F(PipelineTest, AnExceptionIsShortAndTheNextRequestRuns) {
  TinyPipelineOptions options;
  options.raise_below_timestep = 600;
  const auto pipeline = load(options);
  ASSERT_TRUE(pipeline.ok()) << pipeline.status();
  v1::GenerationSpec spec = make_spec(**pipeline);
  Recorder recorder;
  const auto status = (*pipeline)->generate(spec, recorder).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_EQ(get_error_info(status)->reason, "INTERNAL");
  EXPECT_TRUE(absl::StartsWith(
      status.message(), "denoise: mat1 and mat2 shapes cannot be multiplied"))
      << status;
  EXPECT_EQ(status.message().find('\n'), absl::string_view::npos);
  EXPECT_EQ(recorder.steps(), 2);
  spec.set_num_inference_steps(1);
  EXPECT_EQ(generate(**pipeline, spec).size(), 1u);
}

TEST_F(PipelineTest, AnObserversErrorEndsIt) {
  const auto pipeline = load({});
  ASSERT_TRUE(pipeline.ok()) << pipeline.status();
  Recorder recorder;
  recorder.output_status = absl::DataLossError("nobody listens");
  v1::GenerationSpec spec = make_spec(**pipeline);
  spec.set_num_images(2);
  EXPECT_EQ((*pipeline)->generate(spec, recorder).status(),
            absl::DataLossError("nobody listens"));
  EXPECT_EQ(recorder.infos.size(), 1u);
}

TEST_F(PipelineTest, SendsPreviewsEveryNthStep) {
  const auto pipeline = load({});
  ASSERT_TRUE(pipeline.ok()) << pipeline.status();
  v1::GenerationSpec spec = make_spec(**pipeline);
  const auto without = generate(**pipeline, spec);
  spec.mutable_preview()->set_interval_steps(2);
  spec.mutable_preview()->set_max_edge(64);
  Recorder recorder;
  ASSERT_TRUE((*pipeline)->generate(spec, recorder).ok());
  ASSERT_EQ(recorder.previews.size(), 2u);
  EXPECT_EQ(recorder.previews[0].step(), 2);
  EXPECT_EQ(recorder.previews[1].step(), 4);
  for (const v1::Preview& preview : recorder.previews) {
    EXPECT_EQ(preview.mime_type(), "image/jpeg");
    EXPECT_EQ(preview.data().substr(0, 2), "\xff\xd8");
    EXPECT_LE(preview.width(), 64);
    EXPECT_GT(preview.width(), 0);
  }
  EXPECT_EQ(recorder.data, without);
}

TEST_F(PipelineTest, WritesMetadataOnlyWhenAsked) {
  const auto pipeline = load({});
  ASSERT_TRUE(pipeline.ok()) << pipeline.status();
  v1::GenerationSpec spec = make_spec(**pipeline, 77);
  spec.mutable_output()->set_format(v1::OutputSpec::FORMAT_PNG);
  const std::string plain = generate(**pipeline, spec)[0];
  EXPECT_EQ(plain.substr(1, 3), "PNG");
  EXPECT_FALSE(absl::StrContains(plain, "a red circle"));
  spec.mutable_output()->set_embed_metadata(true);
  const std::string told = generate(**pipeline, spec)[0];
  EXPECT_TRUE(absl::StrContains(told, "a red circle"));
  EXPECT_TRUE(absl::StrContains(told, ", Seed: 77, Size: 32x32"));
}

TEST_F(PipelineTest, ReportsACutPrompt) {
  const auto pipeline = load({});
  ASSERT_TRUE(pipeline.ok()) << pipeline.status();
  v1::GenerationSpec spec = make_spec(**pipeline);
  Recorder recorder;
  EXPECT_FALSE((*pipeline)->generate(spec, recorder)->prompt_truncated);
  spec.set_prompt(std::string(100, 'a'));
  EXPECT_TRUE((*pipeline)->generate(spec, recorder)->prompt_truncated);
}

// The step at which denoise makes NaN, which is the first below timestep 700.
std::string first_step_below_700(const std::filesystem::path& directory,
                                 const std::string& scheduler,
                                 const std::string& manifest) {
  TinyPipelineOptions options;
  options.scheduler = manifest;
  options.nan_below_timestep = 700;
  EXPECT_TRUE(write_tiny_pipeline(directory, options).ok());
  std::ofstream(directory / "scheduler/scheduler_config.json")
      << "{\"_class_name\": \"FlowMatchEulerDiscreteScheduler\"" << scheduler
      << "}";
  const auto pipeline = Pipeline::load(directory, {});
  if (!pipeline.ok()) return std::string(pipeline.status().message());
  v1::GenerationSpec spec = (*pipeline)->description().defaults();
  spec.set_prompt("a red circle");
  Recorder recorder;
  const auto status = (*pipeline)->generate(spec, recorder).status();
  const auto info = get_error_info(status);
  if (!info || info->metadata.count("step") == 0) return status.ToString();
  return info->metadata.at("step");
}

TEST_F(PipelineTest, TheManifestOrDynamicShiftingChoosesTheSigmaGrid) {
  // The scheduler's own four steps are at 1000, 667, 334 and 1, a pipeline's at
  // 1000, 750, 500 and 250. These settings shift neither.
  const std::string dynamic =
      ", \"use_dynamic_shifting\": true, \"base_shift\": 0, \"max_shift\": 0";
  const std::string own = "sigma_grid: SIGMA_GRID_SCHEDULER";
  const std::string pipeline = "sigma_grid: SIGMA_GRID_PIPELINE";
  EXPECT_EQ(first_step_below_700(directory_, "", ""), "2");
  EXPECT_EQ(first_step_below_700(directory_, "", own), "2");
  EXPECT_EQ(first_step_below_700(directory_, "", pipeline), "3");
  EXPECT_EQ(first_step_below_700(directory_, dynamic, ""), "3");
  EXPECT_EQ(first_step_below_700(directory_, dynamic, own), "2");
}

TEST_F(PipelineTest, ATerminalLevelNeedsTwoSteps) {
  ASSERT_TRUE(write_tiny_pipeline(directory_, {}).ok());
  std::ofstream(directory_ / "scheduler/scheduler_config.json")
      << "{\"_class_name\": \"FlowMatchEulerDiscreteScheduler\", "
         "\"shift_terminal\": 0.02}";
  const auto pipeline = Pipeline::load(directory_, {});
  ASSERT_TRUE(pipeline.ok()) << pipeline.status();
  v1::GenerationSpec spec = make_spec(**pipeline);
  EXPECT_EQ(generate(**pipeline, spec).size(), 1u);
  spec.set_num_inference_steps(1);
  Recorder recorder;
  EXPECT_EQ((*pipeline)->generate(spec, recorder).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(PipelineTest, ARequestChoosesItsScheduler) {
  const auto pipeline = load({});
  ASSERT_TRUE(pipeline.ok()) << pipeline.status();
  v1::GenerationSpec spec = make_spec(**pipeline);
  spec.set_num_inference_steps(6);
  std::set<std::vector<std::string>> pictures;
  for (const std::string& name : (*pipeline)->description().schedulers()) {
    spec.set_scheduler(name);
    const auto picture = generate(**pipeline, spec);
    EXPECT_EQ(generate(**pipeline, spec), picture) << name;
    pictures.insert(picture);
  }
  EXPECT_EQ(pictures.size(), 4u);
  // Empty means the package's own.
  spec.clear_scheduler();
  EXPECT_EQ(pictures.count(generate(**pipeline, spec)), 1u);
  spec.set_scheduler("Nonesuch");
  Recorder recorder;
  const auto status = (*pipeline)->generate(spec, recorder).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(get_error_info(status)->metadata.at("field"), "spec.scheduler");
  EXPECT_TRUE(absl::StrContains(status.message(), "UniPCMultistep")) << status;
}

TEST_F(PipelineTest, NoisySamplersDependOnThePicturesSeedOnly) {
  const auto pipeline = load({});
  ASSERT_TRUE(pipeline.ok()) << pipeline.status();
  v1::GenerationSpec spec = make_spec(**pipeline, 5);
  spec.set_scheduler("DPMSolverMultistepSDE");
  spec.set_num_images(2);
  const auto batch = generate(**pipeline, spec);
  ASSERT_EQ(batch.size(), 2u);
  spec.set_num_images(1);
  for (int i = 0; i < 2; ++i) {
    spec.set_seed(5 + i);
    EXPECT_LE(difference(batch[i], generate(**pipeline, spec)[0]), 1) << i;
  }
}

TEST_F(PipelineTest, CustomSigmasReplaceTheGrid) {
  const auto pipeline = load({});
  ASSERT_TRUE(pipeline.ok()) << pipeline.status();
  v1::GenerationSpec spec = make_spec(**pipeline);
  const auto expected = generate(**pipeline, spec);
  // The four levels of the scheduler's own grid.
  spec.clear_num_inference_steps();
  for (double sigma : {1.0, 0.667, 0.334, 0.001}) spec.add_sigmas(sigma);
  Recorder recorder;
  ASSERT_TRUE((*pipeline)->generate(spec, recorder).ok());
  EXPECT_LE(difference(recorder.data[0], expected[0]), 1);
  EXPECT_EQ(recorder.progress.back().total_steps(), 4);
  spec.set_sigmas(1, 0.9);
  EXPECT_GT(difference(generate(**pipeline, spec)[0], expected[0]), 1);
  // What the scheduler or the limits do not allow names the field.
  const auto refused = [&](const v1::GenerationSpec& bad) {
    Recorder ignored;
    const auto status = (*pipeline)->generate(bad, ignored).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_EQ(get_error_info(status)->metadata.at("field"), "spec.sigmas");
  };
  v1::GenerationSpec bad = spec;
  bad.set_scheduler("DPMSolverMultistep");
  refused(bad);
  bad = spec;
  bad.set_num_inference_steps(4);
  refused(bad);
  bad = spec;
  for (int i = 0; i < 200; ++i) bad.add_sigmas(1e-3);
  refused(bad);
}

TEST_F(PipelineTest, SamplersOfVariancePreservingModelsRun) {
  TinyPipelineOptions options;
  options.scheduler = R"(
  choices { name: "EulerAncestralDiscrete" }
  choices { name: "DDIM" options: '{"clip_sample": false}' }
  choices {
    name: "DPM++2MKarras"
    class_name: "DPMSolverMultistepScheduler"
    options: '{"use_karras_sigmas": true}'
  }
  choices { name: "UniPCMultistep" })";
  ASSERT_TRUE(write_tiny_pipeline(directory_, options).ok());
  std::ofstream(directory_ / "scheduler/scheduler_config.json")
      << R"({"_class_name": "EulerDiscreteScheduler", "beta_end": 0.012,
             "beta_schedule": "scaled_linear", "beta_start": 0.00085,
             "interpolation_type": "linear", "steps_offset": 1,
             "timestep_spacing": "leading"})";
  const auto pipeline = Pipeline::load(directory_, {});
  ASSERT_TRUE(pipeline.ok()) << pipeline.status();
  std::map<std::string, std::string> pictures;
  std::set<std::string> kinds;
  for (const std::string& name : (*pipeline)->description().schedulers()) {
    v1::GenerationSpec spec = make_spec(**pipeline);
    spec.set_scheduler(name);
    // Latents of any scale have previews.
    spec.mutable_preview()->set_interval_steps(2);
    Recorder recorder;
    const auto report = (*pipeline)->generate(spec, recorder);
    ASSERT_TRUE(report.ok()) << name << ": " << report.status();
    EXPECT_EQ(recorder.previews.size(), 2u);
    pictures[name] = recorder.data[0];
    kinds.insert(recorder.data[0]);
  }
  ASSERT_EQ(pictures.size(), 5u);
  // Without noise DDIM is Euler's method in other units.
  EXPECT_LE(difference(pictures["DDIM"], pictures["EulerDiscrete"]), 1);
  EXPECT_GE(kinds.size(), 4u);
}

TEST_F(PipelineTest, NoMemoryIsToldAndTheNextRequestRuns) {
  TinyPipelineOptions options;
  options.method_sources["denoise"] = R"(
def denoise(self, latents, timestep, conditioning: Dict[str, Tensor]):
    if float(timestep[0]) < 600.0:
        return torch.zeros([1125899906842624])
    return latents
)";
  const auto pipeline = load(options);
  ASSERT_TRUE(pipeline.ok()) << pipeline.status();
  v1::GenerationSpec spec = make_spec(**pipeline);
  Recorder recorder;
  const auto status = (*pipeline)->generate(spec, recorder).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_EQ(get_error_info(status)->reason, "GPU_OUT_OF_MEMORY");
  EXPECT_EQ(recorder.steps(), 2);
  spec.set_num_inference_steps(1);
  EXPECT_EQ(generate(**pipeline, spec).size(), 1u);
}

TEST_F(PipelineTest, MorePixelsThanTheLimitAreRefused) {
  ASSERT_TRUE(write_tiny_pipeline(directory_, {}).ok());
  std::stringstream manifest;
  manifest << std::ifstream(directory_ / "ferry.txtpb").rdbuf();
  std::ofstream(directory_ / "ferry.txtpb") << absl::StrReplaceAll(
      manifest.str(), {{"max_pixels: 16384", "max_pixels: 2048"}});
  const auto pipeline = Pipeline::load(directory_, {});
  ASSERT_TRUE(pipeline.ok()) << pipeline.status();
  v1::GenerationSpec spec = make_spec(**pipeline);
  spec.set_height(64);
  EXPECT_EQ(generate(**pipeline, spec).size(), 1u);
  spec.set_width(64);
  Recorder recorder;
  EXPECT_EQ((*pipeline)->generate(spec, recorder).status().code(),
            absl::StatusCode::kInvalidArgument);
}

// What is wrong with a package, and what the error must tell.
struct Damage {
  const char* name;
  std::function<void(TinyPipelineOptions&)> option;
  std::function<void(const std::filesystem::path&)> file;
  std::vector<std::string> told;
};

std::vector<Damage> damages() {
  const auto remove = [](const char* file) {
    return [=](const std::filesystem::path& directory) {
      std::filesystem::remove(directory / file);
    };
  };
  const auto replace = [](const char* method, const char* source) {
    return [=](TinyPipelineOptions& o) { o.method_sources[method] = source; };
  };
  const auto scheduler = [](const char* config) {
    return [=](const std::filesystem::path& directory) {
      std::ofstream(directory / "scheduler/scheduler_config.json") << config;
    };
  };
  const auto schedulers = [](const char* fields) {
    return [=](TinyPipelineOptions& o) { o.scheduler = fields; };
  };
  return {
      {"no archive", {}, remove("pipeline.pt"), {"pipeline.pt: "}},
      {"no scheduler",
       {},
       remove("scheduler/scheduler_config.json"),
       {"scheduler_config.json"}},
      {"no tokenizer", {}, remove("tokenizer/tiny.model"), {"tiny.model"}},
      {"cut archive",
       {},
       [](const std::filesystem::path& directory) {
         std::filesystem::resize_file(directory / "pipeline.pt", 2000);
       },
       {"pipeline.pt: "}},
      {"method",
       [](TinyPipelineOptions& o) { o.without_method = "latent_shape"; },
       {},
       {"pipeline.pt: method latent_shape is missing"}},
      {"plan",
       [](TinyPipelineOptions& o) { o.wrong_plan = true; },
       {},
       {"pipeline.pt: transformer.layers: "}},
      {"warm-up",
       [](TinyPipelineOptions& o) { o.raise_below_timestep = 2000; },
       {},
       {"pipeline.pt: warm-up: denoise: "}},
      {"shape of denoise",
       replace("denoise",
               "def denoise(self, latents, timestep, "
               "conditioning: Dict[str, Tensor]):\n    return latents[:1]\n"),
       {},
       {"denoise: returned [1, 4, 2, 2] for latents of [2, 4, 2, 2]"}},
      {"shape of decode",
       replace("decode",
               "def decode(self, latents):\n"
               "    return self.vae.forward(latents)[:, :1]\n"),
       {},
       {"decode: must return [1, 3, 16, 16]"}},
      {"rows of encode_prompt",
       replace("encode_prompt",
               "def encode_prompt(self, ids) -> Dict[str, Tensor]:\n"
               "    return {\"text\": self.text_encoder.forward(ids)[:1]}\n"),
       {},
       {"encode_prompt: "}},
      {"latent_shape",
       replace("latent_shape",
               "def latent_shape(self, batch: int, height: int, width: int, "
               "frames: int) -> List[int]:\n    return [batch, 4, 16]\n"),
       {},
       {"latent_shape: returned [1, 4, 16]"}},
      {"steps of the scheduler",
       schedulers(""),
       scheduler("{\"_class_name\": \"EulerDiscreteScheduler\", "
                 "\"num_train_timesteps\": 100}"),
       {"ferry.txtpb: limits.max_num_inference_steps: must be at most 100"}},
      {"grid of the scheduler",
       schedulers("sigma_grid: SIGMA_GRID_PIPELINE"),
       scheduler("{\"_class_name\": \"EulerDiscreteScheduler\"}"),
       {"ferry.txtpb: scheduler.sigma_grid: ", "EulerDiscrete"}},
      {"class of a choice",
       schedulers("choices { name: \"Nonesuch\" }"),
       {},
       {"ferry.txtpb: scheduler.choices[0] (Nonesuch): ", "NonesuchScheduler",
        "UniPCMultistepScheduler"}},
      {"name of a choice",
       schedulers("choices { name: \"FlowMatchEulerDiscrete\" }"),
       {},
       {"ferry.txtpb: scheduler.choices[0].name: "}},
      {"options of a choice",
       schedulers("choices { name: \"UniPCMultistep\" "
                  "options: '{\"mystery\": 1}' }"),
       {},
       {"ferry.txtpb: scheduler.choices[0] (UniPCMultistep): mystery is no "
        "option of UniPCMultistepScheduler"}},
      {"prediction of a choice",
       schedulers("choices { name: \"DPMSolverMultistep\" }"),
       {},
       {"ferry.txtpb: scheduler.choices: DPMSolverMultistep: predicts epsilon, "
        "but the model flow_prediction; options must say prediction_type and "
        "use_flow_sigmas"}},
      {"steps of a choice",
       schedulers("choices { name: \"UniPCMultistep\" options: "
                  "'{\"prediction_type\": \"flow_prediction\", "
                  "\"use_flow_sigmas\": true, "
                  "\"num_train_timesteps\": 100}' }"),
       {},
       {"limits.max_num_inference_steps: must be at most 99 with "
        "UniPCMultistep"}},
      {"levels of a choice",
       schedulers("choices { name: \"DDIM\" }"),
       scheduler("{\"_class_name\": \"EulerDiscreteScheduler\", "
                 "\"rescale_betas_zero_snr\": true, "
                 "\"timestep_spacing\": \"trailing\"}"),
       {"ferry.txtpb: scheduler: DDIM: with 1 steps: ", "pure noise"}},
      {"levels of small pictures",
       schedulers("sigma_grid: SIGMA_GRID_PIPELINE mu: MU_LINEAR"),
       scheduler("{\"_class_name\": \"FlowMatchEulerDiscreteScheduler\", "
                 "\"use_dynamic_shifting\": true, "
                 "\"base_image_seq_len\": 1024, \"base_shift\": 0, "
                 "\"max_image_seq_len\": 2048, \"max_shift\": -30}"),
       {"ferry.txtpb: scheduler: FlowMatchEulerDiscrete: with 4 steps: ",
        "step 1 would go from 1 to 1"}},
      {"manifest",
       {},
       [](const std::filesystem::path& directory) {
         std::ofstream(directory / "ferry.txtpb", std::ios::app)
             << "compute_dtype: COMPUTE_DTYPE_INT4\n";
       },
       {"ferry.txtpb:", "COMPUTE_DTYPE_INT4"}},
  };
}

TEST_F(PipelineTest, EveryDamageIsNamed) {
  for (const Damage& damage : damages()) {
    SCOPED_TRACE(damage.name);
    TinyPipelineOptions options;
    if (damage.option) damage.option(options);
    ASSERT_TRUE(write_tiny_pipeline(directory_, options).ok());
    if (damage.file) damage.file(directory_);
    const absl::Status status = Pipeline::load(directory_, {}).status();
    EXPECT_FALSE(status.ok());
    for (const std::string& text : damage.told) {
      EXPECT_TRUE(absl::StrContains(status.message(), text)) << status;
    }
    EXPECT_LT(status.message().size(), 1024u);
  }
}

}  // namespace
}  // namespace ferry
