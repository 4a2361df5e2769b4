#include "pipelines/noise_schedulers.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "pipelines/schedulers/load_noise_scheduler.h"
#include "pipelines/schedulers/prediction.h"
#include "pipelines/schedulers/scheduler_config.h"
#include "pipelines/schedulers/sigma_grids.h"
#include "platform/base/error_info.h"
#include "platform/base/status_macros.h"

namespace ferry {
namespace {

// Image tokens for which levels are computed at load, to see that they are
// sound; the size of an image moves them, it does not break them.
constexpr int64_t kTypicalSeqLen = 1024;

absl::Status manifest_error(absl::string_view field, absl::string_view text) {
  return absl::InvalidArgumentError(
      absl::StrCat("ferry.txtpb: ", field, ": ", text));
}

absl::Status invalid_field(absl::string_view field, absl::string_view text) {
  return make_error(absl::StatusCode::kInvalidArgument,
                    absl::StrCat(field, ": ", text),
                    {"INVALID_FIELD", {{"field", std::string(field)}}});
}

absl::StatusOr<std::unique_ptr<NoiseScheduler>> derive(
    const SchedulerConfig& own, const config::v1::NoiseSchedulerChoice& choice,
    int index) {
  const std::string class_name = choice.class_name().empty()
                                     ? absl::StrCat(choice.name(), "Scheduler")
                                     : choice.class_name();
  ASSIGN_OR_RETURN(SchedulerConfig config,
                   own.derive(class_name, choice.options(),
                              absl::StrCat("ferry.txtpb: scheduler.choices[",
                                           index, "] (", choice.name(), ")")));
  return make_noise_scheduler(std::move(config));
}

v1::SchedulerInfo::CustomSigmas to_proto(CustomSigmas sigmas) {
  switch (sigmas) {
    case CustomSigmas::kRefused:
      return v1::SchedulerInfo::CUSTOM_SIGMAS_REFUSED;
    case CustomSigmas::kPerStep:
      return v1::SchedulerInfo::CUSTOM_SIGMAS_PER_STEP;
    case CustomSigmas::kWithLast:
      return v1::SchedulerInfo::CUSTOM_SIGMAS_WITH_LAST;
  }
  return v1::SchedulerInfo::CUSTOM_SIGMAS_UNSPECIFIED;
}

}  // namespace

absl::StatusOr<NoiseSchedulers> NoiseSchedulers::load(
    const std::filesystem::path& directory,
    config::v1::PipelineManifest* manifest) {
  auto* const config = manifest->mutable_scheduler();
  ASSIGN_OR_RETURN(const SchedulerConfig file,
                   SchedulerConfig::load(directory / config->config()));
  NoiseSchedulers result;
  ASSIGN_OR_RETURN(auto own, make_noise_scheduler(file));
  if (config->sigma_grid() == config::v1::SIGMA_GRID_UNSPECIFIED) {
    config->set_sigma_grid(own->needs_image_seq_len() &&
                                   own->custom_sigmas() ==
                                       CustomSigmas::kPerStep
                               ? config::v1::SIGMA_GRID_PIPELINE
                               : config::v1::SIGMA_GRID_SCHEDULER);
  }
  result.pipeline_grid_ =
      config->sigma_grid() == config::v1::SIGMA_GRID_PIPELINE;
  // Other samplers understand levels that they are handed in another way.
  if (result.pipeline_grid_ && own->custom_sigmas() != CustomSigmas::kPerStep) {
    return manifest_error(
        "scheduler.sigma_grid",
        absl::StrCat("must be SIGMA_GRID_SCHEDULER with ", own->name()));
  }
  const std::string own_name = own->name();
  result.choices_.push_back({own_name, std::move(own)});
  for (int i = 0; i < config->choices_size(); ++i) {
    const auto& choice = config->choices(i);
    if (choice.name() == own_name) {
      return manifest_error(
          absl::StrCat("scheduler.choices[", i, "].name"),
          absl::StrCat(own_name, " is what ", config->config(),
                       " is called; choose another name"));
    }
    ASSIGN_OR_RETURN(auto scheduler, derive(file, choice, i));
    result.choices_.push_back({choice.name(), std::move(scheduler)});
  }
  for (const Choice& choice : result.choices_) {
    RETURN_IF_ERROR(result.check(choice, *manifest));
  }
  return result;
}

absl::Status NoiseSchedulers::check(
    const Choice& choice, const config::v1::PipelineManifest& manifest) const {
  const NoiseScheduler& scheduler = *choice.scheduler;
  const StepRange steps = scheduler.step_range();
  const int default_steps = manifest.defaults().num_inference_steps();
  const int max_steps = manifest.limits().max_num_inference_steps();
  if (default_steps < steps.min) {
    return manifest_error(
        "defaults.num_inference_steps",
        absl::StrCat("must be at least ", steps.min, " with ", choice.name));
  }
  if (max_steps > steps.max) {
    return manifest_error(
        "limits.max_num_inference_steps",
        absl::StrCat("must be at most ", steps.max, " with ", choice.name));
  }
  const Prediction expected = choices_.front().scheduler->prediction();
  if (scheduler.prediction() != expected) {
    return manifest_error(
        absl::StrCat("scheduler.choices: ", choice.name),
        absl::StrCat(
            "predicts ", prediction_name(scheduler.prediction()),
            ", but the model ", prediction_name(expected),
            "; options must say prediction_type",
            expected == Prediction::kFlow ? " and use_flow_sigmas" : ""));
  }
  for (int n : {steps.min, default_steps, max_steps}) {
    NoiseScheduleOptions options;
    options.num_inference_steps = n;
    options.image_seq_len = kTypicalSeqLen;
    const absl::Status status = make(scheduler, std::move(options)).status();
    if (!status.ok()) {
      return manifest_error(
          absl::StrCat("scheduler: ", choice.name),
          absl::StrCat("with ", n, " steps: ", status.message()));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<NoiseSchedule>> NoiseSchedulers::make(
    const NoiseScheduler& scheduler, NoiseScheduleOptions options) const {
  if (options.sigmas.empty() && pipeline_grid_ &&
      scheduler.custom_sigmas() == CustomSigmas::kPerStep) {
    options.sigmas = flow_pipeline_sigmas(options.num_inference_steps);
  }
  return scheduler.make_schedule(options);
}

absl::StatusOr<std::unique_ptr<NoiseSchedule>> NoiseSchedulers::make_schedule(
    const v1::GenerationSpec& spec, int64_t image_seq_len) const {
  const NoiseScheduler* scheduler = nullptr;
  for (const Choice& choice : choices_) {
    if (spec.scheduler() == choice.name) scheduler = choice.scheduler.get();
  }
  if (spec.scheduler().empty()) scheduler = choices_.front().scheduler.get();
  if (scheduler == nullptr) {
    return invalid_field(
        "spec.scheduler",
        absl::StrCat("must be one of ", absl::StrJoin(names(), ", ")));
  }
  NoiseScheduleOptions options;
  options.num_inference_steps = spec.num_inference_steps();
  options.image_seq_len = image_seq_len;
  options.sigmas.assign(spec.sigmas().begin(), spec.sigmas().end());
  auto schedule = make(*scheduler, std::move(options));
  if (schedule.ok()) return schedule;
  return invalid_field(
      spec.sigmas().empty() ? "spec.num_inference_steps" : "spec.sigmas",
      schedule.status().message());
}

std::vector<std::string> NoiseSchedulers::names() const {
  std::vector<std::string> names;
  names.reserve(choices_.size());
  for (const Choice& choice : choices_) names.push_back(choice.name);
  return names;
}

void NoiseSchedulers::describe(v1::Pipeline* pipeline) const {
  for (const Choice& choice : choices_) {
    pipeline->add_schedulers(choice.name);
    v1::SchedulerInfo* const info = pipeline->add_scheduler_infos();
    info->set_name(choice.name);
    info->set_custom_sigmas(to_proto(choice.scheduler->custom_sigmas()));
    info->set_min_num_inference_steps(choice.scheduler->step_range().min);
  }
}

}  // namespace ferry
