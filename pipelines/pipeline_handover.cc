#include "pipelines/pipeline_handover.h"

#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "pipelines/known_pipelines.h"
#include "platform/base/status_macros.h"

namespace ferry {
namespace {

using config::v1::Mu;
using config::v1::NoiseSchedulerConfig;
using config::v1::SigmaGrid;

constexpr char kGrids[] =
    "SIGMA_GRID_SCHEDULER (none: the scheduler's own), SIGMA_GRID_PIPELINE (1 "
    "to 1/steps in equal distances), SIGMA_GRID_WHOLE_TIMESTEPS and "
    "SIGMA_GRID_WHOLE_TIMESTEPS_BEFORE_ONE (cut to whole timesteps), "
    "SIGMA_GRID_LINEAR_QUADRATIC or SIGMA_GRID_LINEAR_QUADRATIC_TIMESTEPS";
constexpr char kMus[] =
    "MU_LINEAR (a line in the image's tokens), MU_SQUARE_ROOT (their root), "
    "MU_EMPIRICAL (a fit of tokens and steps) or MU_FIXED";

absl::Status field_error(absl::string_view field, absl::string_view text) {
  return absl::InvalidArgumentError(
      absl::StrCat("ferry.txtpb: scheduler.", field, ": ", text));
}

bool is_dynamic(const NoiseScheduler& scheduler) {
  return scheduler.needs_image_seq_len();
}

// Why the folder leaves open what an unknown pipeline does; empty when it does
// not.
std::string open_question(const NoiseScheduler& scheduler,
                          const ModelIndex& index) {
  const std::optional<FlowTraits> traits = scheduler.flow_traits();
  if (!traits.has_value()) return "";
  if (!index.pipeline_class.empty()) {
    return absl::StrCat("what model_index.json's ", index.pipeline_class,
                        " does is not known");
  }
  if (traits->num_train_timesteps == 1) return "num_train_timesteps is 1";
  if (traits->inverts_sigmas) return "invert_sigmas is true";
  if (!is_dynamic(scheduler)) return "";
  if (traits->has_linear_time_shift) {
    return "use_dynamic_shifting is true and time_shift_type linear";
  }
  if (!traits->takes_timesteps) {
    return absl::StrCat("use_dynamic_shifting is true with ", scheduler.name());
  }
  return "";
}

absl::Status left_open(absl::string_view field, absl::string_view what,
                       absl::string_view choices, const std::string& question,
                       const NoiseSchedulerConfig& config) {
  return field_error(
      field, absl::StrCat("must say ", what, ", since ", config.config(),
                          " leaves it open (", question, "): ", choices));
}

// What is done for files that leave nothing open.
SigmaGrid usual_grid(const NoiseScheduler& scheduler) {
  const bool takes_levels = scheduler.flow_traits().has_value();
  return takes_levels && is_dynamic(scheduler)
             ? config::v1::SIGMA_GRID_PIPELINE
             : config::v1::SIGMA_GRID_SCHEDULER;
}

SigmaGrid grid_of(const KnownPipeline& pipeline,
                  const NoiseScheduler& scheduler) {
  const auto traits = scheduler.flow_traits();
  const bool is_solver = traits.has_value() && !traits->takes_timesteps;
  if (!traits.has_value() || (is_solver && pipeline.leaves_grid_to_solvers)) {
    return config::v1::SIGMA_GRID_SCHEDULER;
  }
  return pipeline.sigma_grid;
}

absl::Status complete_grid(const NoiseScheduler& scheduler,
                           const ModelIndex& index,
                           const KnownPipeline* pipeline,
                           NoiseSchedulerConfig* config,
                           std::vector<std::string>* warnings) {
  if (config->sigma_grid() != config::v1::SIGMA_GRID_UNSPECIFIED) {
    if (can_take(scheduler, to_pipeline_grid(config->sigma_grid()))) {
      return absl::OkStatus();
    }
    return field_error("sigma_grid",
                       absl::StrCat(SigmaGrid_Name(config->sigma_grid()),
                                    " is nothing that ", scheduler.name(),
                                    " takes with these settings; "
                                    "SIGMA_GRID_SCHEDULER is"));
  }
  if (pipeline != nullptr) {
    config->set_sigma_grid(grid_of(*pipeline, scheduler));
    return absl::OkStatus();
  }
  if (const std::string question = open_question(scheduler, index);
      !question.empty()) {
    return left_open("sigma_grid",
                     "which noise levels the model's pipeline hands to its "
                     "scheduler",
                     kGrids, question, *config);
  }
  config->set_sigma_grid(usual_grid(scheduler));
  const auto traits = scheduler.flow_traits();
  if (traits.has_value() && traits->takes_timesteps) {
    warnings->push_back(
        absl::StrCat("the manifest does not say scheduler.sigma_grid; ",
                     SigmaGrid_Name(config->sigma_grid()), " is taken"));
  }
  return absl::OkStatus();
}

absl::Status complete_mu(const NoiseScheduler& scheduler,
                         const ModelIndex& index, const KnownPipeline* pipeline,
                         NoiseSchedulerConfig* config,
                         std::vector<std::string>* warnings) {
  if (config->mu() != config::v1::MU_UNSPECIFIED || !is_dynamic(scheduler)) {
    return absl::OkStatus();
  }
  if (pipeline != nullptr && pipeline->mu != config::v1::MU_UNSPECIFIED) {
    config->set_mu(pipeline->mu);
    return absl::OkStatus();
  }
  std::string question = open_question(scheduler, index);
  if (pipeline != nullptr) {
    question = absl::StrCat("use_dynamic_shifting is true, and ",
                            pipeline->class_name, " computes no mu");
  }
  if (!question.empty()) {
    return left_open("mu", "how the model's pipeline computes mu", kMus,
                     question, *config);
  }
  config->set_mu(config::v1::MU_LINEAR);
  warnings->push_back(
      "the manifest does not say scheduler.mu; MU_LINEAR is taken");
  return absl::OkStatus();
}

}  // namespace

absl::Status complete_handover(const NoiseScheduler& scheduler,
                               const ModelIndex& index,
                               NoiseSchedulerConfig* config,
                               std::vector<std::string>* warnings) {
  const KnownPipeline* const pipeline =
      find_known_pipeline(index.pipeline_class);
  RETURN_IF_ERROR(complete_grid(scheduler, index, pipeline, config, warnings));
  return complete_mu(scheduler, index, pipeline, config, warnings);
}

bool can_take(const NoiseScheduler& scheduler, PipelineGrid grid) {
  if (grid == PipelineGrid::kNone) return true;
  const std::optional<FlowTraits> traits = scheduler.flow_traits();
  return traits.has_value() &&
         (traits->takes_timesteps || !has_timesteps(grid));
}

PipelineGrid to_pipeline_grid(SigmaGrid grid) {
  switch (grid) {
    case config::v1::SIGMA_GRID_PIPELINE:
      return PipelineGrid::kUniform;
    case config::v1::SIGMA_GRID_WHOLE_TIMESTEPS:
      return PipelineGrid::kWholeTimesteps;
    case config::v1::SIGMA_GRID_WHOLE_TIMESTEPS_BEFORE_ONE:
      return PipelineGrid::kWholeTimestepsBeforeOne;
    case config::v1::SIGMA_GRID_LINEAR_QUADRATIC:
      return PipelineGrid::kLinearQuadratic;
    case config::v1::SIGMA_GRID_LINEAR_QUADRATIC_TIMESTEPS:
      return PipelineGrid::kLinearQuadraticTimesteps;
    default:
      return PipelineGrid::kNone;
  }
}

MuRule to_mu_rule(const NoiseSchedulerConfig& config) {
  MuRule rule;
  switch (config.mu()) {
    case config::v1::MU_SQUARE_ROOT:
      rule.kind = MuKind::kSquareRoot;
      break;
    case config::v1::MU_EMPIRICAL:
      rule.kind = MuKind::kEmpirical;
      break;
    case config::v1::MU_FIXED:
      rule.kind = MuKind::kFixed;
      rule.fixed = config.fixed_mu();
      break;
    default:
      break;
  }
  return rule;
}

}  // namespace ferry
