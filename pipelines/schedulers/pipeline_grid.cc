#include "pipelines/schedulers/pipeline_grid.h"

#include <cmath>

#include "pipelines/schedulers/sigma_grids.h"
#include "platform/base/check.h"

namespace ferry {
namespace {

// diffusers divides float32 numbers.
double divide(double timestep, double by) {
  return static_cast<float>(timestep) / static_cast<float>(by);
}

GridLevels from_timesteps(std::vector<double> timesteps, double divisor) {
  GridLevels levels;
  levels.timesteps = std::move(timesteps);
  for (double timestep : levels.timesteps) {
    levels.sigmas.push_back(divide(timestep, divisor));
  }
  return levels;
}

std::vector<double> whole_timesteps(double first, double last, int count) {
  std::vector<double> timesteps = linspace(first, last, count);
  for (double& timestep : timesteps) timestep = std::trunc(timestep);
  return timesteps;
}

// Genmo's: each level is 1 - x, and x rises slowly, then faster and faster.
std::vector<double> linear_quadratic(int n) {
  constexpr double kThreshold = 0.025;
  const int linear_steps = n / 2;
  if (linear_steps == 0) return {1.0};
  const int quadratic_steps = n - linear_steps;
  const double slope = kThreshold / linear_steps;
  const double rest = linear_steps - kThreshold * n;
  const double squared = static_cast<double>(quadratic_steps) * quadratic_steps;
  const double quadratic = rest / (linear_steps * squared);
  const double linear = slope - 2 * rest / squared;
  const double constant = quadratic * linear_steps * linear_steps;
  std::vector<double> sigmas;
  for (int i = 0; i < n; ++i) {
    const double risen =
        i < linear_steps
            ? i * kThreshold / linear_steps
            : quadratic * (static_cast<double>(i) * i) + linear * i + constant;
    sigmas.push_back(1.0 - risen);
  }
  return sigmas;
}

}  // namespace

bool has_timesteps(PipelineGrid grid) {
  return grid == PipelineGrid::kWholeTimesteps ||
         grid == PipelineGrid::kWholeTimestepsBeforeOne ||
         grid == PipelineGrid::kLinearQuadraticTimesteps;
}

int min_grid_steps(PipelineGrid grid) {
  return grid == PipelineGrid::kLinearQuadratic ? 2 : 1;
}

GridLevels make_grid(PipelineGrid grid, int n, int64_t num_train_timesteps) {
  FERRY_CHECK_GE(n, min_grid_steps(grid));
  FERRY_CHECK_GE(num_train_timesteps, 1);
  const auto train_steps = static_cast<double>(num_train_timesteps);
  switch (grid) {
    case PipelineGrid::kNone:
      break;
    case PipelineGrid::kUniform:
      return {linspace(1.0, 1.0 / n, n), {}};
    case PipelineGrid::kWholeTimesteps:
      return from_timesteps(whole_timesteps(train_steps, 1, n), train_steps);
    case PipelineGrid::kWholeTimestepsBeforeOne: {
      std::vector<double> timesteps = whole_timesteps(train_steps, 1, n + 1);
      timesteps.pop_back();
      return from_timesteps(std::move(timesteps), train_steps);
    }
    case PipelineGrid::kLinearQuadratic:
      return {linear_quadratic(n), {}};
    case PipelineGrid::kLinearQuadraticTimesteps: {
      // LTX's timesteps are thousandths, whatever the training had.
      std::vector<double> timesteps = linear_quadratic(n);
      for (double& timestep : timesteps) {
        timestep = static_cast<float>(timestep) * 1000.0f;
      }
      return from_timesteps(std::move(timesteps), train_steps);
    }
  }
  return {};
}

}  // namespace ferry
