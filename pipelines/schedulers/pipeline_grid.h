#pragma once

#include <cstdint>
#include <vector>

namespace ferry {

// Noise levels of rectified flow that a diffusers pipeline hands to its
// NoiseScheduler, before that shifts them.
enum class PipelineGrid {
  // None: the NoiseScheduler makes its own.
  kNone,
  // 1 to 1/n in equal distances.
  kUniform,
  // Whole timesteps in equal distances from num_train_timesteps to 1, cut and
  // not rounded; the second one makes a distance more and leaves 1 out. The
  // model is told them as they are.
  kWholeTimesteps,
  kWholeTimestepsBeforeOne,
  // Half of the steps fall to 1 - 0.025 in equal distances, the rest to 0 on a
  // parabola.
  kLinearQuadratic,
  // The same, as timesteps: the model is told them as they are.
  kLinearQuadraticTimesteps,
};

// One level a step, and what the model is told.
struct GridLevels {
  std::vector<double> sigmas;
  // Empty: it is told the shifted levels.
  std::vector<double> timesteps;
};

// Whether the model is told other timesteps than the shifted levels.
bool has_timesteps(PipelineGrid grid);

// The fewest steps that a grid can have.
int min_grid_steps(PipelineGrid grid);

// The levels of n steps; none with kNone.
// REQUIRES: n >= min_grid_steps(grid); num_train_timesteps >= 1.
GridLevels make_grid(PipelineGrid grid, int n, int64_t num_train_timesteps);

}  // namespace ferry
