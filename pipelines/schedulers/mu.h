#pragma once

#include <cstdint>

namespace ferry {

// Two points of the line from image tokens to mu, which says how far dynamic
// shifting moves noise levels.
struct DynamicShift {
  double base_shift = 0.5;
  double max_shift = 1.15;
  int64_t base_image_seq_len = 256;
  int64_t max_image_seq_len = 4096;
};

// How a pipeline computes mu.
enum class MuKind {
  // On the line through the two points, also outside of them: FLUX.1.
  kLinear,
  // sqrt(tokens / base_image_seq_len) * max_shift + base_shift: CogView4.
  kSquareRoot,
  // A fit of tokens and steps that needs no points: FLUX.2.
  kEmpirical,
  // One number for every image.
  kFixed,
};

// A rule for mu. A value.
struct MuRule {
  MuKind kind = MuKind::kLinear;
  // mu itself, with kFixed.
  double fixed = 0;
};

// mu for an image of `image_seq_len` tokens that is made in `steps` steps.
// REQUIRES: with kLinear, the two lengths of `shift` differ; image_seq_len >=
// 0.
double compute_mu(const MuRule& rule, const DynamicShift& shift,
                  int64_t image_seq_len, int steps);

}  // namespace ferry
