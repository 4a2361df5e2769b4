#include "pipelines/schedulers/noise_scheduler.h"

#include <cmath>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "platform/base/check.h"
#include "platform/base/status_macros.h"

namespace ferry {
namespace {

// Whether a step that starts at `level` is one: it has noise to remove. Pure
// noise, which only a first level can be, has infinitely much.
bool is_start(float level, bool is_first, bool inverted) {
  if (inverted) return std::isfinite(level) && level < 1;
  return level > 0 && (is_first || std::isfinite(level));
}

// `lenient`: levels may end where the last step starts.
absl::Status check_levels(const std::string& name,
                          const NoiseSchedule& schedule, bool inverted,
                          bool lenient) {
  const std::vector<float>& levels = schedule.sigmas();
  for (int i = 0; i < schedule.num_steps(); ++i) {
    const float from = levels[i];
    const float to = levels[i + 1];
    const bool moves = inverted ? to > from : to < from;
    const bool stays = lenient && i + 1 == schedule.num_steps() && to == from;
    if (is_start(from, i == 0, inverted) && (moves || stays) &&
        std::isfinite(schedule.timesteps()[i])) {
      continue;
    }
    return absl::InvalidArgumentError(absl::StrCat(
        name, " has no valid noise levels for ", schedule.num_steps(),
        " step(s) with these settings: step ", i + 1, " would go from ", from,
        " to ", to, "; levels must be finite and ",
        inverted ? "rise" : "fall, above 0"));
  }
  return absl::OkStatus();
}

}  // namespace

NoiseSchedule::NoiseSchedule(std::vector<float> timesteps,
                             std::vector<float> sigmas, float init_noise_sigma)
    : timesteps_(std::move(timesteps)),
      sigmas_(std::move(sigmas)),
      init_noise_sigma_(init_noise_sigma) {
  FERRY_CHECK_EQ(sigmas_.size(), timesteps_.size() + 1);
}

at::Tensor NoiseSchedule::scale_model_input(const at::Tensor& sample,
                                            int i) const {
  FERRY_CHECK_GE(i, 0);
  FERRY_CHECK_LT(i, num_steps());
  return scale(sample, i);
}

at::Tensor NoiseSchedule::step(const at::Tensor& model_output, int i,
                               const at::Tensor& sample, NoiseSource& noise) {
  FERRY_CHECK_EQ(i, steps_made_);
  FERRY_CHECK_LT(i, num_steps());
  FERRY_CHECK(model_output.sizes() == sample.sizes());
  ++steps_made_;
  return make_step(model_output, i, sample, noise);
}

at::Tensor NoiseSchedule::scale(const at::Tensor& sample, int /*i*/) const {
  return sample;
}

absl::StatusOr<std::unique_ptr<NoiseSchedule>> NoiseScheduler::make_schedule(
    const NoiseScheduleOptions& options) const {
  const std::optional<FlowTraits> traits = flow_traits();
  if (!options.timesteps.empty() &&
      (!traits.has_value() || !traits->takes_timesteps)) {
    return absl::InvalidArgumentError(
        absl::StrCat(name(), " takes no timesteps of a pipeline"));
  }
  if (!options.timesteps.empty() &&
      options.timesteps.size() != options.sigmas.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat(options.timesteps.size(), " timesteps of a pipeline for ",
                     options.sigmas.size(), " sigmas; there must be as many"));
  }
  ASSIGN_OR_RETURN(std::unique_ptr<NoiseSchedule> schedule,
                   compute_schedule(options));
  RETURN_IF_ERROR(check_levels(name(), *schedule,
                               traits.has_value() && traits->inverts_sigmas,
                               options.sigmas.empty()));
  return schedule;
}

}  // namespace ferry
