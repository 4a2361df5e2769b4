#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "pipelines/schedulers/mu.h"
#include "pipelines/schedulers/scheduler_config.h"

namespace ferry {

// How a rectified-flow model's noise levels are moved towards noise: by a
// constant, or by the size of the image. A value.
struct FlowShift {
  double shift = 1.0;
  bool use_dynamic_shifting = false;
  // With use_dynamic_shifting: the two points, and how mu acts.
  DynamicShift dynamic_shift;
  bool linear_time_shift = false;
  // The lowest level, to which all are stretched. 0: they are not.
  double shift_terminal = 0;

  // mu for an image of so many tokens and so many steps; 0 without dynamic
  // shifting. INVALID_ARGUMENT if the number of tokens is needed and missing.
  absl::StatusOr<double> mu(const MuRule& rule,
                            std::optional<int64_t> image_seq_len,
                            int steps) const;

  // Shifts falling levels and stretches them. T is the type in which diffusers
  // computes: double for its own grids, float for custom levels of
  // FlowMatchEulerDiscrete. Levels may become infinite or NaN.
  template <typename T>
  void apply(double mu, std::vector<T>* sigmas) const;
};

// Reads use_dynamic_shifting and its keys, base_shift and the others also where
// diffusers leaves them to the pipeline.
FlowShift read_dynamic_shift(SchedulerConfig& config);

}  // namespace ferry
