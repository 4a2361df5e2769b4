#include "pipelines/schedulers/timestep_spacing.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "pipelines/schedulers/sigma_grids.h"
#include "platform/base/check.h"

namespace ferry {
namespace {

// Multiples of `ratio` that fall to zero, moved by `offset`.
std::vector<double> leading(int count, int64_t ratio, int64_t offset) {
  std::vector<double> timesteps;
  for (int i = count - 1; i >= 0; --i) {
    timesteps.push_back(static_cast<double>(i * ratio + offset));
  }
  return timesteps;
}

// From `last` down to zero in n equal distances of the whole training.
std::vector<double> trailing(int n, double train_steps, double last) {
  // NumPy's arange steps by the rounded difference of its first two. For some
  // n (61 is one) it makes a step too many, which is left out here.
  const double step = (last - train_steps / n) - last;
  std::vector<double> timesteps;
  for (int i = 0; i < n && last + i * step > 0; ++i) {
    timesteps.push_back(std::nearbyint(last + i * step) - 1);
  }
  return timesteps;
}

std::vector<double> spaced(const TimestepSpacing& spacing, int n) {
  FERRY_CHECK_GE(n, 1);
  FERRY_CHECK_LE(n, spacing.num_train_timesteps);
  const double train_steps = static_cast<double>(spacing.num_train_timesteps);
  std::vector<double> result;
  switch (spacing.kind) {
    case TimestepSpacing::Kind::kLinspace:
      result = linspace(0, train_steps - 1, n);
      std::reverse(result.begin(), result.end());
      break;
    case TimestepSpacing::Kind::kLeading:
      result =
          leading(n, spacing.num_train_timesteps / n, spacing.steps_offset);
      break;
    case TimestepSpacing::Kind::kTrailing:
      result = trailing(n, train_steps, train_steps);
      break;
  }
  return result;
}

}  // namespace

std::vector<double> TimestepSpacing::timesteps(int n) const {
  std::vector<double> result = spaced(*this, n);
  for (double& timestep : result) timestep = static_cast<float>(timestep);
  return result;
}

std::vector<double> TimestepSpacing::whole_timesteps(int n) const {
  std::vector<double> result = spaced(*this, n);
  for (double& timestep : result) timestep = std::nearbyint(timestep);
  return result;
}

std::vector<double> TimestepSpacing::multistep_timesteps(
    int n, int64_t last_timestep) const {
  FERRY_CHECK_GE(n, 1);
  FERRY_CHECK_LT(n, last_timestep);
  FERRY_CHECK_LE(last_timestep, num_train_timesteps);
  const double last = static_cast<double>(last_timestep);
  if (kind == Kind::kTrailing) {
    return trailing(n, static_cast<double>(num_train_timesteps), last);
  }
  std::vector<double> result;
  if (kind == Kind::kLinspace) {
    result = linspace(0, last - 1, n + 1);
    std::reverse(result.begin(), result.end());
    for (double& timestep : result) timestep = std::nearbyint(timestep);
  } else {
    result = leading(n + 1, last_timestep / (n + 1), steps_offset);
  }
  result.pop_back();
  return result;
}

TimestepSpacing read_timestep_spacing(SchedulerConfig& config,
                                      const char* fallback,
                                      int64_t num_train_timesteps) {
  TimestepSpacing spacing;
  const std::string kind = config.get_choice(
      "timestep_spacing", fallback, {"linspace", "leading", "trailing"});
  if (kind == "leading") spacing.kind = TimestepSpacing::Kind::kLeading;
  if (kind == "trailing") spacing.kind = TimestepSpacing::Kind::kTrailing;
  spacing.steps_offset = config.get_int("steps_offset", 0, 0, 1000000);
  spacing.num_train_timesteps = num_train_timesteps;
  return spacing;
}

}  // namespace ferry
