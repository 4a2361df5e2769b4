#include "pipelines/noise_schedulers.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "pipelines/model_index.h"
#include "pipelines/pipeline_handover.h"
#include "pipelines/schedulers/load_noise_scheduler.h"
#include "pipelines/schedulers/prediction.h"
#include "platform/base/check.h"
#include "platform/base/error_info.h"
#include "platform/base/logging.h"
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

// The key of model_index.json for a file in a folder of its own.
std::string component_of(const std::filesystem::path& config_file) {
  return config_file.parent_path().string();
}

// The file, for the class that diffusers makes of it: the one in
// model_index.json, where there is one.
absl::StatusOr<SchedulerConfig> load_config(const std::filesystem::path& path,
                                            const ModelIndex& index) {
  ASSIGN_OR_RETURN(SchedulerConfig file, SchedulerConfig::load(path));
  const std::string& written = file.written_class_name();
  const bool is_named = !index.scheduler_class.empty();
  const std::string class_name =
      is_named ? resolve_class_name(index.scheduler_class) : file.class_name();
  if (class_name != written || (is_named && written != index.scheduler_class)) {
    log_warning("the NoiseScheduler is not the one that its file names",
                {{"file", path.string()},
                 {"_class_name", written},
                 {"model_index.json", index.scheduler_class},
                 {"taken", class_name}});
  }
  if (class_name == file.class_name()) return file;
  return file.derive(class_name, "", file.origin());
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

bool is_latent_shape(const std::vector<int64_t>& shape, int64_t batch) {
  // Products of two of them are numbers, and no tensor is as large.
  constexpr int64_t kLargest = std::numeric_limits<int32_t>::max();
  return (shape.size() == 4 || shape.size() == 5) && shape[0] == batch &&
         std::all_of(shape.begin(), shape.end(), [](int64_t size) {
           return size >= 1 && size <= kLargest;
         });
}

int64_t image_seq_len(const std::vector<int64_t>& latent_shape,
                      const config::v1::PipelineManifest& manifest) {
  FERRY_CHECK(!latent_shape.empty());
  FERRY_CHECK(is_latent_shape(latent_shape, latent_shape[0]));
  const int64_t patch = manifest.scheduler().patch_size();
  FERRY_CHECK_GE(patch, 1);
  return (latent_shape.end()[-2] / patch) * (latent_shape.end()[-1] / patch);
}

absl::StatusOr<NoiseSchedulers> NoiseSchedulers::load(
    const std::filesystem::path& directory,
    config::v1::PipelineManifest* manifest) {
  auto* const config = manifest->mutable_scheduler();
  ASSIGN_OR_RETURN(const ModelIndex index,
                   ModelIndex::load(directory, component_of(config->config())));
  ASSIGN_OR_RETURN(const SchedulerConfig file,
                   load_config(directory / config->config(), index));
  ASSIGN_OR_RETURN(auto own, make_noise_scheduler(file));
  std::vector<std::string> warnings;
  RETURN_IF_ERROR(complete_handover(*own, index, config, &warnings));
  for (const std::string& warning : warnings) {
    log_warning(warning, {{"file", config->config()}});
  }
  NoiseSchedulers result;
  std::string name = own->name();
  result.choices_.push_back({std::move(name), std::move(own),
                             to_pipeline_grid(config->sigma_grid())});
  RETURN_IF_ERROR(result.add_choices(file, config));
  result.mu_ = to_mu_rule(*config);
  if (config->mu() != config::v1::MU_UNSPECIFIED && !result.depend_on_size()) {
    return manifest_error(
        "scheduler.mu", absl::StrCat("must be unset, since ", config->config(),
                                     " has no use_dynamic_shifting"));
  }
  for (const Choice& choice : result.choices_) {
    RETURN_IF_ERROR(result.check(choice, *manifest, kTypicalSeqLen));
  }
  return result;
}

absl::Status NoiseSchedulers::add_choices(
    const SchedulerConfig& file, config::v1::NoiseSchedulerConfig* config) {
  for (int i = 0; i < config->choices_size(); ++i) {
    const auto& choice = config->choices(i);
    const std::string field = absl::StrCat("scheduler.choices[", i, "]");
    if (choice.name() == choices_[0].name) {
      return manifest_error(
          absl::StrCat(field, ".name"),
          absl::StrCat(choice.name(), " is what ", config->config(),
                       " is called; choose another name"));
    }
    ASSIGN_OR_RETURN(auto scheduler, derive(file, choice, i));
    PipelineGrid grid = to_pipeline_grid(choice.sigma_grid());
    if (!can_take(*scheduler, grid)) {
      return manifest_error(
          absl::StrCat(field, ".sigma_grid"),
          absl::StrCat("is nothing that ", scheduler->name(), " takes"));
    }
    if (choice.sigma_grid() == config::v1::SIGMA_GRID_UNSPECIFIED &&
        can_take(*scheduler, choices_[0].grid)) {
      grid = choices_[0].grid;
    }
    if (scheduler->needs_image_seq_len() &&
        config->mu() == config::v1::MU_UNSPECIFIED) {
      return manifest_error(
          "scheduler.mu",
          absl::StrCat("must be set, since ", field, " (", choice.name(),
                       ") has use_dynamic_shifting"));
    }
    choices_.push_back({choice.name(), std::move(scheduler), grid});
  }
  return absl::OkStatus();
}

StepRange NoiseSchedulers::Choice::step_range() const {
  StepRange range = scheduler->step_range();
  range.min = std::max(range.min, min_grid_steps(grid));
  return range;
}

bool NoiseSchedulers::depend_on_size() const {
  return std::any_of(choices_.begin(), choices_.end(), [](const Choice& c) {
    return c.scheduler->needs_image_seq_len();
  });
}

absl::Status NoiseSchedulers::check_size(
    const config::v1::PipelineManifest& manifest, int64_t image_seq_len) const {
  for (const Choice& choice : choices_) {
    RETURN_IF_ERROR(check(choice, manifest, image_seq_len));
  }
  return absl::OkStatus();
}

absl::Status NoiseSchedulers::check(
    const Choice& choice, const config::v1::PipelineManifest& manifest,
    int64_t image_seq_len) const {
  const StepRange steps = choice.step_range();
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
  const Prediction predicted = choice.scheduler->prediction();
  const Prediction expected = choices_.front().scheduler->prediction();
  if (predicted != expected) {
    return manifest_error(
        absl::StrCat("scheduler.choices: ", choice.name),
        absl::StrCat(
            "predicts ", prediction_name(predicted), ", but the model ",
            prediction_name(expected), "; options must say prediction_type",
            expected == Prediction::kFlow ? " and use_flow_sigmas" : ""));
  }
  for (int n : {steps.min, default_steps, max_steps}) {
    NoiseScheduleOptions options;
    options.num_inference_steps = n;
    options.image_seq_len = image_seq_len;
    const absl::Status status = make(choice, std::move(options)).status();
    if (!status.ok()) {
      return manifest_error(
          absl::StrCat("scheduler: ", choice.name),
          absl::StrCat("with ", n, " steps: ", status.message()));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<NoiseSchedule>> NoiseSchedulers::make(
    const Choice& choice, NoiseScheduleOptions options) const {
  const bool is_custom = !options.sigmas.empty();
  const int n = is_custom ? static_cast<int>(options.sigmas.size())
                          : options.num_inference_steps;
  if (!is_custom && n < choice.step_range().min) {
    return absl::InvalidArgumentError(absl::StrCat(
        "must be at least ", choice.step_range().min, " with ", choice.name));
  }
  options.mu = mu_;
  if (choice.grid != PipelineGrid::kNone && n >= min_grid_steps(choice.grid)) {
    const std::optional<FlowTraits> traits = choice.scheduler->flow_traits();
    FERRY_CHECK(traits.has_value());
    GridLevels levels = make_grid(choice.grid, n, traits->num_train_timesteps);
    if (!is_custom) options.sigmas = std::move(levels.sigmas);
    options.timesteps = std::move(levels.timesteps);
  }
  return choice.scheduler->make_schedule(options);
}

absl::StatusOr<std::unique_ptr<NoiseSchedule>> NoiseSchedulers::make_schedule(
    const v1::GenerationSpec& spec, int64_t image_seq_len) const {
  const Choice* chosen = nullptr;
  for (const Choice& choice : choices_) {
    if (spec.scheduler() == choice.name) chosen = &choice;
  }
  if (spec.scheduler().empty()) chosen = &choices_.front();
  if (chosen == nullptr) {
    return invalid_field(
        "spec.scheduler",
        absl::StrCat("must be one of ", absl::StrJoin(names(), ", ")));
  }
  NoiseScheduleOptions options;
  options.num_inference_steps = spec.num_inference_steps();
  options.image_seq_len = image_seq_len;
  options.sigmas.assign(spec.sigmas().begin(), spec.sigmas().end());
  auto schedule = make(*chosen, std::move(options));
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
    info->set_min_num_inference_steps(choice.step_range().min);
  }
}

}  // namespace ferry
