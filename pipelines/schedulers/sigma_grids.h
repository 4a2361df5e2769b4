#pragma once

#include <cstdint>
#include <vector>

namespace ferry {

// NumPy's linspace: `count` values from `start` to `stop`, both included.
// REQUIRES: count >= 0.
std::vector<double> linspace(double start, double stop, int count);

// The levels 1, ..., 1/n that the pipelines of FLUX, Qwen-Image and LTX hand
// to their NoiseScheduler: linspace(1, 1/n, n). REQUIRES: n >= 1.
std::vector<double> flow_pipeline_sigmas(int n);

// `count` levels from `max` down to `min`, spaced as in Karras et al. 2022
// (rho 7). REQUIRES: 0 <= min <= max.
std::vector<double> karras_sigmas(double min, double max, int count);

// `count` levels from `max` down to `min`, evenly spaced in log(sigma).
// REQUIRES: 0 < min <= max.
std::vector<double> exponential_sigmas(double min, double max, int count);

// Two points of the line from image tokens to mu.
struct DynamicShift {
  double base_shift = 0.5;
  double max_shift = 1.15;
  int64_t base_image_seq_len = 256;
  int64_t max_image_seq_len = 4096;
};

// diffusers' calculate_shift: mu for an image of `image_seq_len` tokens, also
// outside of the two points. REQUIRES: the two lengths differ.
double calculate_shift(const DynamicShift& shift, int64_t image_seq_len);

}  // namespace ferry
