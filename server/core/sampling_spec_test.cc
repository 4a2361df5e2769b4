#include "server/core/sampling_spec.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <ostream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "server/core/testing/test_pipeline.h"

namespace ferry {
namespace {

using Kind = FieldViolation::Kind;

constexpr char kFlow[] = "FlowMatchEulerDiscrete";
constexpr char kEuler[] = "EulerDiscrete";
constexpr char kDpm[] = "DPMSolverMultistep";
constexpr char kUniPc[] = "UniPCMultistep";

v1::GenerationSpec make_spec(const std::string& scheduler,
                             const std::vector<double>& sigmas = {}) {
  v1::GenerationSpec spec;
  spec.set_scheduler(scheduler);
  for (double sigma : sigmas) spec.add_sigmas(sigma);
  return spec;
}

std::vector<FieldViolation> complete(v1::GenerationSpec* spec) {
  const v1::Pipeline pipeline = make_test_pipeline();
  return complete_sampling_spec(pipeline, pipeline.limits(), spec);
}

// The only violation; none when there is another number of them.
FieldViolation violation_of(v1::GenerationSpec spec) {
  const std::vector<FieldViolation> violations = complete(&spec);
  EXPECT_EQ(violations.size(), 1u);
  return violations.size() == 1 ? violations[0] : FieldViolation();
}

TEST(SamplingSpecTest, FillsDefaultsIn) {
  v1::GenerationSpec spec;
  EXPECT_TRUE(complete(&spec).empty());
  EXPECT_EQ(spec.scheduler(), kFlow);
  EXPECT_EQ(spec.num_inference_steps(), 20);
  EXPECT_EQ(count_steps(spec), 20);
  // The pipeline's default comes before the first.
  v1::Pipeline pipeline = make_test_pipeline();
  pipeline.mutable_defaults()->set_scheduler(kEuler);
  spec.clear_scheduler();
  EXPECT_TRUE(
      complete_sampling_spec(pipeline, pipeline.limits(), &spec).empty());
  EXPECT_EQ(spec.scheduler(), kEuler);
}

TEST(SamplingSpecTest, SigmasReplaceTheStepsAndCanBeSentAgain) {
  v1::GenerationSpec spec = make_spec("", {1, 0.75, 0.5});
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(complete(&spec).empty());
    EXPECT_FALSE(spec.has_num_inference_steps());
    EXPECT_EQ(spec.sigmas_size(), 3);
    EXPECT_EQ(count_steps(spec), 3);
  }
}

TEST(SamplingSpecTest, AnUnknownSchedulerIsToldWhatThereIs) {
  const FieldViolation violation = violation_of(make_spec("Euler"));
  EXPECT_EQ(violation.kind, Kind::kUnknown);
  EXPECT_EQ(violation.field, "spec.scheduler");
  EXPECT_EQ(violation.metadata.at("allowed"),
            "FlowMatchEulerDiscrete, EulerDiscrete, DPMSolverMultistep, "
            "UniPCMultistep");
  // Sigmas that fit no scheduler are told too.
  v1::GenerationSpec spec = make_spec("Euler", {1, 1});
  EXPECT_EQ(complete(&spec).size(), 2u);
}

TEST(SamplingSpecTest, StepsLieInTheSchedulersRange) {
  const auto steps = [](const char* scheduler, int count) {
    v1::GenerationSpec spec = make_spec(scheduler);
    spec.set_num_inference_steps(count);
    return spec;
  };
  for (const char* scheduler : {kFlow, kDpm}) {
    v1::GenerationSpec spec = steps(scheduler, 1);
    EXPECT_TRUE(complete(&spec).empty());
  }
  EXPECT_EQ(violation_of(steps(kUniPc, 1)).description,
            "must be 2 to 100, got 1");
  EXPECT_EQ(violation_of(steps(kFlow, 101)).field, "spec.num_inference_steps");
}

// Levels that a scheduler takes, or what is said of them.
struct SigmasCase {
  const char* scheduler;
  std::vector<double> sigmas;
  std::string told;
};

std::ostream& operator<<(std::ostream& out, const SigmasCase& c) {
  return out << c.scheduler << " " << c.told;
}

std::vector<double> falling(int count, double from) {
  std::vector<double> sigmas;
  for (int i = 0; i < count; ++i) sigmas.push_back(from * (count - i) / count);
  return sigmas;
}

TEST(SamplingSpecTest, ChecksSigmas) {
  const double nan = std::nan("");
  const double infinity = std::numeric_limits<double>::infinity();
  const std::vector<SigmasCase> cases = {
      {kFlow, {1}, ""},
      {kFlow, {1, 1e-6}, ""},
      {kFlow, falling(100, 1), ""},
      {kFlow, falling(101, 1), "number of levels must be 1 to 100, got 101"},
      {kFlow, {1, 0}, "level 1 must be a number from 1e-06 to 1, got 0"},
      {kFlow, {1.0001}, "level 0 must be"},
      {kFlow, {1, nan}, "level 1 must be a number from 1e-06 to 1, got nan"},
      {kFlow, {nan}, "level 0 must be"},
      {kFlow, {infinity, 0.5}, "level 0 must be"},
      {kFlow, {0.5, -0.5}, "level 1 must be"},
      {kFlow, {0.5, 0.5}, "must fall from each level to the next, but level 1"},
      {kFlow, {0.9, 0.5, 0.6}, "but level 2 is 0.6 after 0.5"},
      // Equal as float32.
      {kFlow, {0.5 + 1e-12, 0.5}, "must fall"},
      {kEuler, {14.6, 3, 0}, ""},
      {kEuler, {14.6, 0.1}, ""},
      {kEuler, falling(101, 10), ""},
      {kEuler, falling(102, 10), "must be 2 to 101, got 102"},
      {kEuler, {14.6}, "number of levels must be 2 to 101, got 1"},
      {kEuler, {14.6, 0, 0}, "level 1 must be"},
      {kEuler, {1e300, 1}, "level 0 must be"},
      {kEuler, {3, 1e-7}, "from 1e-06 to 1e+06 or 0, got 1e-07"},
      {kUniPc, {1}, "must be 2 to 100, got 1"},
      {kUniPc, {1, 0.5}, ""},
      {kDpm,
       {1, 0.5},
       "must be empty with the scheduler DPMSolverMultistep; custom sigmas "
       "are taken by: FlowMatchEulerDiscrete, EulerDiscrete, UniPCMultistep"},
  };
  for (const SigmasCase& c : cases) {
    SCOPED_TRACE(testing::PrintToString(c));
    v1::GenerationSpec spec = make_spec(c.scheduler, c.sigmas);
    if (c.told.empty()) {
      EXPECT_TRUE(complete(&spec).empty());
      continue;
    }
    const FieldViolation violation = violation_of(spec);
    EXPECT_EQ(violation.field, "spec.sigmas");
    EXPECT_TRUE(absl::StrContains(violation.description, c.told))
        << violation.description;
  }
}

TEST(SamplingSpecTest, SigmasExcludeSteps) {
  v1::GenerationSpec spec = make_spec(kFlow, {1, 0.5});
  spec.set_num_inference_steps(2);
  const FieldViolation violation = violation_of(spec);
  EXPECT_EQ(violation.kind, Kind::kConflicting);
  EXPECT_EQ(violation.field, "spec.sigmas");
}

}  // namespace
}  // namespace ferry
