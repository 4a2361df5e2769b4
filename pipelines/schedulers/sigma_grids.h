#pragma once

#include <vector>

namespace ferry {

// NumPy's linspace: `count` values from `start` to `stop`, both included.
// REQUIRES: count >= 0, as all that follow.
std::vector<double> linspace(double start, double stop, int count);

// Levels for which a bound is no number, or that rise since `min` is above
// `max`, are for NoiseScheduler::make_schedule() to refuse.

// `count` levels from `max` to `min`, spaced as in Karras et al. 2022 (rho 7).
std::vector<double> karras_sigmas(double min, double max, int count);

// `count` levels from `max` to `min`, evenly spaced in log(sigma).
std::vector<double> exponential_sigmas(double min, double max, int count);

}  // namespace ferry
