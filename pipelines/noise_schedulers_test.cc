#include "pipelines/noise_schedulers.h"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "platform/base/logging.h"

namespace ferry {
namespace {

using ::testing::HasSubstr;

constexpr char kFlow[] = R"("_class_name": "FlowMatchEulerDiscreteScheduler")";
constexpr char kDynamic[] = R"("use_dynamic_shifting": true)";
constexpr char kFlowSolver[] =
    R"("prediction_type": "flow_prediction", "use_flow_sigmas": true)";

class NoiseSchedulersTest : public testing::Test {
 protected:
  NoiseSchedulersTest() {
    directory_ = std::filesystem::path(testing::TempDir()) /
                 testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::remove_all(directory_);
    std::filesystem::create_directories(directory_ / "scheduler");
  }

  void write(const std::string& file, const std::string& text) {
    std::ofstream(directory_ / file, std::ios::binary) << text;
  }
  // Members of the two objects.
  void write_scheduler(const std::string& members) {
    write("scheduler/scheduler_config.json", absl::StrCat("{", members, "}"));
  }
  void write_index(const std::string& members) {
    write("model_index.json", absl::StrCat("{", members, "}"));
  }

  // Loads with these fields of the manifest's scheduler, which are filled in.
  absl::StatusOr<NoiseSchedulers> load(const std::string& fields = "",
                                       int default_steps = 20,
                                       int max_steps = 50) {
    manifest_.Clear();
    auto* const scheduler = manifest_.mutable_scheduler();
    EXPECT_TRUE(
        google::protobuf::TextFormat::ParseFromString(fields, scheduler));
    scheduler->set_config("scheduler/scheduler_config.json");
    manifest_.mutable_defaults()->set_num_inference_steps(default_steps);
    manifest_.mutable_limits()->set_max_num_inference_steps(max_steps);
    return NoiseSchedulers::load(directory_, &manifest_);
  }
  std::string load_error(const std::string& fields = "") {
    const absl::Status status = load(fields).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << fields;
    return std::string(status.message());
  }
  // The name of the package's own, or the error.
  std::string own_name() {
    const auto schedulers = load();
    return schedulers.ok() ? schedulers->names().front()
                           : std::string(schedulers.status().message());
  }
  std::string filled_in() {
    const auto& scheduler = manifest_.scheduler();
    return absl::StrCat(SigmaGrid_Name(scheduler.sigma_grid()), " ",
                        Mu_Name(scheduler.mu()));
  }

  std::filesystem::path directory_;
  config::v1::PipelineManifest manifest_;
};

TEST_F(NoiseSchedulersTest, TheClassInTheModelIndexCounts) {
  write_scheduler(R"("_class_name": "PNDMScheduler", "skip_prk_steps": true,
      "beta_schedule": "scaled_linear", "steps_offset": 1)");
  EXPECT_THAT(own_name(), HasSubstr("PNDMScheduler"));
  const std::vector<std::pair<std::string, std::string>> cases = {
      {R"(["diffusers", "DDIMScheduler"])", "DDIM"},
      {R"(["diffusers", "FlaxDDIMScheduler"])", "DDIM"},
      {R"(["diffusers", "EulerAncestralDiscreteScheduler"])",
       "EulerAncestralDiscrete"},
      {R"(["diffusers", "UniPCMultistepScheduler"])", "UniPCMultistep"},
      {R"(["diffusers", "FlaxDPMSolverMultistepScheduler"])",
       "DPMSolverMultistep"},
      {R"(["diffusers", "EulerDiscreteScheduler", {"type_hint": []}])",
       "EulerDiscrete"},
  };
  for (const auto& [entry, name] : cases) {
    write_index(absl::StrCat("\"scheduler\": ", entry));
    EXPECT_EQ(own_name(), name);
  }
  // Nothing there, or nothing of it: the file's own.
  for (const char* entry : {R"("scheduler": [null, null])", R"("vae": 1)"}) {
    write_index(entry);
    EXPECT_THAT(own_name(), HasSubstr("PNDMScheduler")) << entry;
  }
  write_index(R"("scheduler": ["diffusers", "LMSDiscreteScheduler"])");
  EXPECT_THAT(own_name(), HasSubstr("LMSDiscreteScheduler"));
}

TEST_F(NoiseSchedulersTest, TheModelIndexKnowsComponentsByTheirFolders) {
  write_scheduler(R"("_class_name": "DDIMScheduler")");
  write_index(R"("scheduler": ["diffusers", "EulerDiscreteScheduler"],
                 "prior_scheduler": ["diffusers", "DDIMScheduler"])");
  EXPECT_EQ(own_name(), "EulerDiscrete");
  std::filesystem::rename(directory_ / "scheduler",
                          directory_ / "prior_scheduler");
  config::v1::PipelineManifest manifest = manifest_;
  manifest.mutable_scheduler()->set_config(
      "prior_scheduler/scheduler_config.json");
  const auto schedulers = NoiseSchedulers::load(directory_, &manifest);
  ASSERT_TRUE(schedulers.ok()) << schedulers.status();
  EXPECT_EQ(schedulers->names().front(), "DDIM");
}

TEST_F(NoiseSchedulersTest, AFileNeedsNoClassWhereTheModelIndexHasOne) {
  write_scheduler(R"("beta_schedule": "scaled_linear")");
  EXPECT_THAT(own_name(), HasSubstr("has no _class_name"));
  write_index(R"("scheduler": ["diffusers", "DDIMScheduler"])");
  EXPECT_EQ(own_name(), "DDIM");
}

TEST_F(NoiseSchedulersTest, AFlaxNameInTheFileIsResolved) {
  write_scheduler(R"("_class_name": "FlaxDDIMScheduler")");
  EXPECT_EQ(own_name(), "DDIM");
  write_index(R"("scheduler": ["diffusers", "DDIMScheduler"])");
  EXPECT_EQ(own_name(), "DDIM");
}

TEST_F(NoiseSchedulersTest, TellsOfAnotherClassAndOfWhatItAssumes) {
  write_scheduler(absl::StrCat(kFlow, ", \"shift\": 3.0"));
  write_index(R"("scheduler": ["diffusers", "FlaxDDIMScheduler"])");
  LogOptions log;
  log.file = (directory_ / "log").string();
  ASSERT_TRUE(init_logging(log).ok());
  EXPECT_EQ(own_name(), "DDIM");
  write_index("");
  EXPECT_EQ(own_name(), "FlowMatchEulerDiscrete");
  ASSERT_TRUE(init_logging({}).ok());
  std::ifstream file(log.file);
  const std::string lines{std::istreambuf_iterator<char>(file), {}};
  for (const char* part :
       {"warn ", "FlaxDDIMScheduler", "FlowMatchEulerDiscreteScheduler",
        "taken=DDIMScheduler", "SIGMA_GRID_SCHEDULER is taken"}) {
    EXPECT_THAT(lines, HasSubstr(part));
  }
}

TEST_F(NoiseSchedulersTest, NamesWhatIsWrongWithTheModelIndex) {
  write_scheduler(R"("_class_name": "DDIMScheduler")");
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"[]", "model_index.json: is no JSON object"},
      {std::string("{}\0", 3), "model_index.json: is no JSON from byte 3 on"},
      {"\xEF\xBB\xBF{}", "model_index.json: begins with a byte order mark"},
      {"version https://git-lfs.github.com/spec/v1\n",
       "model_index.json: is a Git LFS pointer"},
      {R"({"scheduler": "DDIMScheduler"})",
       "model_index.json: scheduler: must be a list of library and class"},
      {R"({"scheduler": ["diffusers"]})", "scheduler: must be a list"},
      {R"({"scheduler": ["diffusers", null]})", "scheduler: must be a list"},
      {std::string((1 << 20) + 1, ' '), "model_index.json: is larger than"},
  };
  for (const auto& [text, told] : cases) {
    write("model_index.json", text);
    EXPECT_THAT(load_error(), HasSubstr(told));
  }
}

TEST_F(NoiseSchedulersTest, AManifestThatLeavesItOpenIsToldWhatToSay) {
  const std::vector<std::string> open = {
      absl::StrCat(kFlow, ", ", kDynamic, R"(, "time_shift_type": "linear")"),
      absl::StrCat(kFlow, R"(, "num_train_timesteps": 1)"),
      absl::StrCat(kFlow, R"(, "num_train_timesteps": 1.0, "shift": 3.0)"),
      absl::StrCat(kFlow, R"(, "invert_sigmas": true)"),
      absl::StrCat(R"("_class_name": "UniPCMultistepScheduler", )", kFlowSolver,
                   ", ", kDynamic),
  };
  for (const std::string& members : open) {
    SCOPED_TRACE(members);
    write_scheduler(members);
    const std::string error = load_error();
    EXPECT_THAT(error,
                HasSubstr("ferry.txtpb: scheduler.sigma_grid: must say"));
    for (const char* part :
         {"scheduler/scheduler_config.json", "SIGMA_GRID_SCHEDULER",
          "SIGMA_GRID_PIPELINE", "SIGMA_GRID_WHOLE_TIMESTEPS",
          "SIGMA_GRID_LINEAR_QUADRATIC"}) {
      EXPECT_THAT(error, HasSubstr(part));
    }
  }
  // With the grid alone, mu is open too.
  for (const std::string& members : {open.front(), open.back()}) {
    write_scheduler(members);
    const std::string error = load_error("sigma_grid: SIGMA_GRID_PIPELINE");
    EXPECT_THAT(error, HasSubstr("ferry.txtpb: scheduler.mu: must say"));
    for (const char* part :
         {"MU_LINEAR", "MU_SQUARE_ROOT", "MU_EMPIRICAL", "MU_FIXED"}) {
      EXPECT_THAT(error, HasSubstr(part));
    }
    EXPECT_TRUE(
        load("sigma_grid: SIGMA_GRID_PIPELINE mu: MU_SQUARE_ROOT").ok());
  }
  // A pipeline that hands no mu to a file that needs one.
  write_scheduler(absl::StrCat(kFlow, ", ", kDynamic));
  write_index(R"("_class_name": "AuraFlowPipeline")");
  EXPECT_THAT(load_error(), HasSubstr("AuraFlowPipeline computes no mu"));
}

TEST_F(NoiseSchedulersTest, AnUnknownPipelineOfAFlowModelLeavesItOpen) {
  // Of diffusers, of the repository's own file, and what is no class at all.
  const std::vector<std::pair<std::string, std::string>> classes = {
      {R"("BriaFiboPipeline")", "BriaFiboPipeline"},
      {R"("FluxPipeline2")", "FluxPipeline2"},
      {R"(["pipeline", "FluxPipeline"])", R"(["pipeline","FluxPipeline"])"},
      {"7", "7"}};
  const std::vector<std::string> files = {
      absl::StrCat(kFlow, ", \"shift\": 3.0"),
      absl::StrCat(kFlow, ", ", kDynamic),
      absl::StrCat(R"("_class_name": "UniPCMultistepScheduler", )",
                   kFlowSolver)};
  for (const auto& [name, told] : classes) {
    write_index(absl::StrCat("\"_class_name\": ", name));
    for (const std::string& file : files) {
      SCOPED_TRACE(absl::StrCat(name, " ", file));
      write_scheduler(file);
      const std::string error = load_error();
      EXPECT_THAT(error, HasSubstr("scheduler.sigma_grid: must say"));
      EXPECT_THAT(error, HasSubstr(absl::StrCat("what model_index.json's ",
                                                told, " does is not known")));
    }
    write_scheduler(absl::StrCat(kFlow, ", \"shift\": 3.0"));
    EXPECT_TRUE(load("sigma_grid: SIGMA_GRID_SCHEDULER").ok());
    write_scheduler(absl::StrCat(kFlow, ", ", kDynamic));
    EXPECT_THAT(load_error("sigma_grid: SIGMA_GRID_PIPELINE"),
                HasSubstr("scheduler.mu: must say"));
    // Pipelines hand no levels to these.
    write_scheduler(R"("_class_name": "EulerDiscreteScheduler")");
    EXPECT_TRUE(load().ok());
    write_scheduler(absl::StrCat(
        R"("_class_name": "DPMSolverMultistepScheduler", )", kFlowSolver));
    EXPECT_TRUE(load().ok());
  }
}

TEST_F(NoiseSchedulersTest, WhatIsUsualForAFileIsTaken) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {absl::StrCat(kFlow, ", \"shift\": 3.0"),
       "SIGMA_GRID_SCHEDULER MU_UNSPECIFIED"},
      {absl::StrCat(kFlow, ", ", kDynamic), "SIGMA_GRID_PIPELINE MU_LINEAR"},
      {R"("_class_name": "EulerDiscreteScheduler")",
       "SIGMA_GRID_SCHEDULER MU_UNSPECIFIED"},
      {absl::StrCat(R"("_class_name": "DPMSolverMultistepScheduler", )",
                    kFlowSolver, ", ", kDynamic),
       "SIGMA_GRID_SCHEDULER MU_LINEAR"},
      {absl::StrCat(R"("_class_name": "UniPCMultistepScheduler", )",
                    kFlowSolver),
       "SIGMA_GRID_SCHEDULER MU_UNSPECIFIED"},
  };
  for (const auto& [members, expected] : cases) {
    write_scheduler(members);
    const auto schedulers = load();
    ASSERT_TRUE(schedulers.ok()) << members << schedulers.status();
    EXPECT_EQ(filled_in(), expected) << members;
  }
}

TEST_F(NoiseSchedulersTest, ASchedulerTakesOnlyWhatItCan) {
  const std::string solver = absl::StrCat(
      R"("_class_name": "UniPCMultistepScheduler", )", kFlowSolver);
  const std::vector<std::pair<std::string, std::string>> cases = {
      {R"("_class_name": "EulerDiscreteScheduler")", "SIGMA_GRID_PIPELINE"},
      {R"("_class_name": "DDIMScheduler")", "SIGMA_GRID_LINEAR_QUADRATIC"},
      {absl::StrCat(solver, R"(, "use_karras_sigmas": true)"),
       "SIGMA_GRID_PIPELINE"},
      {solver, "SIGMA_GRID_WHOLE_TIMESTEPS"},
      {solver, "SIGMA_GRID_LINEAR_QUADRATIC_TIMESTEPS"},
  };
  for (const auto& [members, grid] : cases) {
    write_scheduler(members);
    EXPECT_THAT(load_error(absl::StrCat("sigma_grid: ", grid)),
                HasSubstr(absl::StrCat("scheduler.sigma_grid: ", grid)));
  }
  write_scheduler(absl::StrCat(kFlow, ", \"shift\": 3.0"));
  EXPECT_THAT(load_error("mu: MU_EMPIRICAL"),
              HasSubstr("scheduler.mu: must be unset"));
  EXPECT_THAT(load_error(absl::StrCat(
                  "choices { name: \"UniPCMultistep\" "
                  "sigma_grid: SIGMA_GRID_WHOLE_TIMESTEPS options: '{",
                  kFlowSolver, "}' }")),
              HasSubstr("scheduler.choices[0].sigma_grid: "));
  EXPECT_THAT(
      load_error(absl::StrCat("choices { name: \"UniPCMultistep\" options: '{",
                              kFlowSolver, ", ", kDynamic, "}' }")),
      HasSubstr("scheduler.mu: must be set"));
}

// First level of the second step.
float second_level(const NoiseSchedulers& schedulers, const std::string& name) {
  v1::GenerationSpec spec;
  spec.set_num_inference_steps(4);
  spec.set_scheduler(name);
  const auto schedule = schedulers.make_schedule(spec, 1024);
  EXPECT_TRUE(schedule.ok()) << schedule.status();
  return schedule.ok() ? (*schedule)->sigmas()[1] : -1;
}

TEST_F(NoiseSchedulersTest, AChoiceHasTheOwnGridUnlessItSaysAnother) {
  write_scheduler(kFlow);
  const std::string solver =
      absl::StrCat(" class_name: \"UniPCMultistepScheduler\" options: '{",
                   kFlowSolver, "}'");
  const auto schedulers = load(absl::StrCat(
      "sigma_grid: SIGMA_GRID_LINEAR_QUADRATIC choices { name: \"A\"", solver,
      "} choices { name: \"B\" sigma_grid: SIGMA_GRID_PIPELINE", solver,
      "} choices { name: \"C\" sigma_grid: SIGMA_GRID_SCHEDULER", solver, "}"));
  ASSERT_TRUE(schedulers.ok()) << schedulers.status();
  EXPECT_FLOAT_EQ(second_level(*schedulers, ""), 0.9875f);
  EXPECT_FLOAT_EQ(second_level(*schedulers, "A"), 0.9875f);
  EXPECT_FLOAT_EQ(second_level(*schedulers, "B"), 0.75f);
  EXPECT_FLOAT_EQ(second_level(*schedulers, "C"), 0.75025f);
}

TEST_F(NoiseSchedulersTest, MuIsWhatTheManifestSays) {
  write_scheduler(absl::StrCat(kFlow, ", ", kDynamic,
                               R"(, "base_shift": 0.25, "max_shift": 0.75)"));
  const auto level = [&](const std::string& mu) {
    const auto schedulers =
        load(absl::StrCat("sigma_grid: SIGMA_GRID_PIPELINE ", mu));
    EXPECT_TRUE(schedulers.ok()) << schedulers.status();
    return schedulers.ok() ? second_level(*schedulers, "") : -1;
  };
  // Of 1024 tokens and 4 steps: exp(mu) / (exp(mu) + 1 / 0.75 - 1).
  const auto expected = [](double mu) {
    return static_cast<float>(std::exp(mu) / (std::exp(mu) + 1 / 0.75 - 1));
  };
  EXPECT_FLOAT_EQ(level("mu: MU_LINEAR"), expected(0.35));
  EXPECT_FLOAT_EQ(level("mu: MU_SQUARE_ROOT"), expected(1.75));
  EXPECT_FLOAT_EQ(level("mu: MU_FIXED fixed_mu: 1.15"), expected(1.15));
  EXPECT_FLOAT_EQ(level("mu: MU_EMPIRICAL"), expected(2.0306897));
}

TEST_F(NoiseSchedulersTest, EveryStepOfEveryClassHasALength) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {absl::StrCat(kFlow, R"(, "num_train_timesteps": 1)"),
       "step 1 would go from 1 to 1"},
      {absl::StrCat(kFlow, R"(, "num_train_timesteps": 1, "shift": 3.0,
          "invert_sigmas": true)"),
       "step 1 would go from 0 to 0; levels must be finite and rise"},
      {absl::StrCat(kFlow, R"(, "shift": 1e6)"), "levels must"},
      {R"("_class_name": "EulerDiscreteScheduler", "use_karras_sigmas": true,
          "sigma_min": 1.0, "sigma_max": 1.0)",
       "step 1 would go from 1 to 1"},
      {R"("_class_name": "EulerDiscreteScheduler", "sigma_min": 5.0,
          "use_exponential_sigmas": true, "sigma_max": 1.0)",
       "step 1 would go from 1 to"},
      {R"("_class_name": "EulerDiscreteScheduler", "beta_start": 0,
          "beta_end": 0)",
       "step 1 would go from 0 to 0"},
      {R"("_class_name": "EulerAncestralDiscreteScheduler", "beta_start": 0,
          "beta_end": 0)",
       "step 1 would go from 0 to 0"},
      {R"("_class_name": "DDIMScheduler", "beta_start": 0, "beta_end": 0)",
       "step 1 would go from 0 to 0"},
      {R"("_class_name": "CogVideoXDDIMScheduler", "beta_start": 0,
          "beta_end": 0)",
       "step 1 would go from 0 to 0"},
      {R"("_class_name": "DPMSolverMultistepScheduler", "sigma_min": 2.0,
          "use_karras_sigmas": true, "sigma_max": 2.0)",
       "step 1 would go from 2 to 2"},
      // The lowest training level is above the lowest of 200 steps.
      {absl::StrCat(R"("_class_name": "DPMSolverMultistepScheduler",
          "final_sigmas_type": "sigma_min", )",
                    kFlowSolver),
       "with 200 steps"},
      {R"("_class_name": "UniPCMultistepScheduler", "sigma_min": 2.0,
          "use_exponential_sigmas": true, "sigma_max": 2.0)",
       "step 1 would go from 2 to 2"},
  };
  for (const auto& [members, told] : cases) {
    SCOPED_TRACE(members);
    write_scheduler(members);
    const auto schedulers = load("sigma_grid: SIGMA_GRID_SCHEDULER", 20, 200);
    EXPECT_EQ(schedulers.status().code(), absl::StatusCode::kInvalidArgument);
    const std::string message(schedulers.status().message());
    EXPECT_THAT(message, HasSubstr("ferry.txtpb: scheduler: "));
    EXPECT_THAT(message, HasSubstr(told));
  }
}

TEST_F(NoiseSchedulersTest, EveryGridFallsForEveryNumberOfSteps) {
  write_scheduler(kFlow);
  for (const char* grid :
       {"SIGMA_GRID_SCHEDULER", "SIGMA_GRID_PIPELINE",
        "SIGMA_GRID_WHOLE_TIMESTEPS", "SIGMA_GRID_WHOLE_TIMESTEPS_BEFORE_ONE",
        "SIGMA_GRID_LINEAR_QUADRATIC",
        "SIGMA_GRID_LINEAR_QUADRATIC_TIMESTEPS"}) {
    const auto schedulers = load(absl::StrCat("sigma_grid: ", grid));
    ASSERT_TRUE(schedulers.ok()) << schedulers.status();
    v1::Pipeline pipeline;
    schedulers->describe(&pipeline);
    const int min = pipeline.scheduler_infos(0).min_num_inference_steps();
    EXPECT_EQ(min, grid == std::string("SIGMA_GRID_LINEAR_QUADRATIC") ? 2 : 1);
    for (int n = min - 1; n <= 600; ++n) {
      v1::GenerationSpec spec;
      spec.set_num_inference_steps(n);
      EXPECT_EQ(schedulers->make_schedule(spec, 64).ok(), n >= min)
          << grid << " " << n;
    }
  }
}

TEST_F(NoiseSchedulersTest, TheSizeOfAnImageMayNotStopTheSteps) {
  write_scheduler(absl::StrCat(kFlow, ", ", kDynamic,
                               R"(, "base_shift": -50, "max_shift": 50)"));
  const auto schedulers = load("sigma_grid: SIGMA_GRID_PIPELINE mu: MU_LINEAR");
  ASSERT_TRUE(schedulers.ok()) << schedulers.status();
  EXPECT_TRUE(schedulers->depend_on_size());
  EXPECT_TRUE(schedulers->check_size(manifest_, 2176).ok());
  const absl::Status huge = schedulers->check_size(manifest_, 4096);
  EXPECT_THAT(std::string(huge.message()), HasSubstr("would go from 1 to 1"));
  v1::GenerationSpec spec;
  spec.set_num_inference_steps(4);
  const absl::Status status = schedulers->make_schedule(spec, 4096).status();
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("spec.num_inference_steps: "));
}

TEST_F(NoiseSchedulersTest, SigmasOfARequestKeepTheTimestepsOfItsPipeline) {
  write_scheduler(kFlow);
  const auto schedulers = load("sigma_grid: SIGMA_GRID_WHOLE_TIMESTEPS");
  ASSERT_TRUE(schedulers.ok()) << schedulers.status();
  v1::GenerationSpec spec;
  for (double sigma : {0.9, 0.5, 0.1}) spec.add_sigmas(sigma);
  const auto schedule = schedulers->make_schedule(spec, 64);
  ASSERT_TRUE(schedule.ok()) << schedule.status();
  EXPECT_EQ((*schedule)->sigmas(), (std::vector<float>{0.9f, 0.5f, 0.1f, 0}));
  EXPECT_EQ((*schedule)->timesteps(), (std::vector<float>{1000, 500, 1}));
  spec.set_sigmas(1, 0.95);
  EXPECT_THAT(
      std::string(schedulers->make_schedule(spec, 64).status().message()),
      HasSubstr("spec.sigmas: "));
}

}  // namespace
}  // namespace ferry
