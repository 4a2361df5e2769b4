#pragma once

#include <vector>

namespace ferry {

// NumPy's linspace: `count` values from `start` to `stop`, both included.
// REQUIRES: count >= 0.
std::vector<double> linspace(double start, double stop, int count);

// `count` levels from `max` down to `min`, spaced as in Karras et al. 2022
// (rho 7). REQUIRES: 0 <= min <= max.
std::vector<double> karras_sigmas(double min, double max, int count);

// `count` levels from `max` down to `min`, evenly spaced in log(sigma).
// REQUIRES: 0 < min <= max.
std::vector<double> exponential_sigmas(double min, double max, int count);

}  // namespace ferry
