// Compares schedules with those that diffusers' pipelines make (tools/goldens).

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ferry/config/v1/pipeline_manifest.pb.h"
#include "ferry/v1/generation_spec.pb.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "pipelines/noise_schedulers.h"

namespace ferry {
namespace {

constexpr double kTolerance = 1e-6;

void write(const std::filesystem::path& file, const std::string& text) {
  std::filesystem::create_directories(file.parent_path());
  std::ofstream(file) << text;
}

// Nothing when they are as close as they must be.
std::string difference(const std::vector<float>& actual,
                       const nlohmann::json& golden) {
  const auto expected = golden.get<std::vector<double>>();
  if (actual.size() != expected.size()) {
    return absl::StrCat(actual.size(), " values instead of ", expected.size());
  }
  double scale = 0;
  for (double value : expected) scale = std::max(scale, std::abs(value));
  for (size_t i = 0; i < actual.size(); ++i) {
    // The negation catches NaN.
    if (std::abs(actual[i] - expected[i]) <= kTolerance * scale) continue;
    return absl::StrCat("value ", i, " is ", actual[i], " instead of ",
                        expected[i]);
  }
  return "";
}

class PipelineSchedulesTest : public testing::Test {
 protected:
  static nlohmann::json cases() {
    std::ifstream file("pipelines/testdata/pipeline_schedules.json");
    EXPECT_TRUE(file) << "goldens are missing";
    return nlohmann::json::parse(file)["cases"];
  }

  PipelineSchedulesTest() {
    directory_ = std::filesystem::path(testing::TempDir()) /
                 testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::remove_all(directory_);
  }

  // A manifest that allows what the goldens ask for.
  static config::v1::PipelineManifest manifest(const nlohmann::json& model) {
    config::v1::PipelineManifest manifest;
    int min_steps = 1000;
    for (const nlohmann::json& run : model["runs"]) {
      min_steps = std::min(min_steps, run["num_inference_steps"].get<int>());
    }
    manifest.mutable_defaults()->set_num_inference_steps(min_steps);
    manifest.mutable_limits()->set_max_num_inference_steps(50);
    manifest.mutable_scheduler()->set_config("scheduler/scheduler_config.json");
    return manifest;
  }

  void expect_equal(const nlohmann::json& model,
                    config::v1::PipelineManifest manifest) {
    write(directory_ / "scheduler/scheduler_config.json",
          model["config"].get<std::string>());
    const auto schedulers = NoiseSchedulers::load(directory_, &manifest);
    ASSERT_TRUE(schedulers.ok()) << schedulers.status();
    for (const nlohmann::json& run : model["runs"]) {
      SCOPED_TRACE(absl::StrCat(run["num_inference_steps"].dump(), " steps"));
      v1::GenerationSpec spec;
      spec.set_num_inference_steps(run["num_inference_steps"].get<int>());
      const int64_t edge = model["token_edge"].get<int64_t>();
      const int64_t tokens = (run["height"].get<int64_t>() / edge) *
                             (run["width"].get<int64_t>() / edge);
      const auto schedule = schedulers->make_schedule(spec, tokens);
      ASSERT_TRUE(schedule.ok()) << schedule.status();
      EXPECT_EQ(difference((*schedule)->sigmas(), run["sigmas"]), "");
      EXPECT_EQ(difference((*schedule)->timesteps(), run["timesteps"]), "");
    }
  }

  std::filesystem::path directory_;
};

TEST_F(PipelineSchedulesTest, AreThoseThatTheManifestSays) {
  std::set<std::string> grids;
  std::set<std::string> mus;
  const nlohmann::json models = cases();
  for (const nlohmann::json& model : models) {
    SCOPED_TRACE(model["name"].get<std::string>());
    config::v1::PipelineManifest said = manifest(model);
    config::v1::SigmaGrid grid;
    const std::string grid_name = model["sigma_grid"].get<std::string>();
    ASSERT_TRUE(config::v1::SigmaGrid_Parse(grid_name, &grid)) << grid_name;
    said.mutable_scheduler()->set_sigma_grid(grid);
    grids.insert(grid_name);
    if (model.contains("mu")) {
      config::v1::Mu mu;
      const std::string mu_name = model["mu"].get<std::string>();
      ASSERT_TRUE(config::v1::Mu_Parse(mu_name, &mu)) << mu_name;
      said.mutable_scheduler()->set_mu(mu);
      mus.insert(mu_name);
    }
    expect_equal(model, said);
  }
  EXPECT_GE(models.size(), 25u);
  EXPECT_EQ(grids.size(), 6u);
  EXPECT_EQ(mus.size(), 3u);
}

TEST_F(PipelineSchedulesTest, AreThoseOfThePipelineInTheModelIndex) {
  for (const nlohmann::json& model : cases()) {
    SCOPED_TRACE(model["name"].get<std::string>());
    const nlohmann::json index = {{"_class_name", model["pipeline"]}};
    write(directory_ / "model_index.json", index.dump());
    expect_equal(model, manifest(model));
  }
}

}  // namespace
}  // namespace ferry
