#include "pipelines/schedulers/mu.h"

#include <cmath>

#include "platform/base/check.h"

namespace ferry {
namespace {

double linear_mu(const DynamicShift& shift, double tokens) {
  FERRY_CHECK_NE(shift.max_image_seq_len, shift.base_image_seq_len);
  const double slope =
      (shift.max_shift - shift.base_shift) /
      static_cast<double>(shift.max_image_seq_len - shift.base_image_seq_len);
  const double offset =
      shift.base_shift - slope * static_cast<double>(shift.base_image_seq_len);
  return tokens * slope + offset;
}

double square_root_mu(const DynamicShift& shift, double tokens) {
  return std::sqrt(tokens / static_cast<double>(shift.base_image_seq_len)) *
             shift.max_shift +
         shift.base_shift;
}

// The numbers are Black Forest Labs': lines in the tokens for 10 and for 200
// steps, and a line in the steps between them.
double empirical_mu(double tokens, double steps) {
  constexpr double kManyTokens = 4300;
  const double at_200 = 0.00016927 * tokens + 0.45666666;
  if (tokens > kManyTokens) return at_200;
  const double at_10 = 8.73809524e-05 * tokens + 1.89833333;
  const double slope = (at_200 - at_10) / 190.0;
  return slope * steps + (at_200 - 200.0 * slope);
}

}  // namespace

double compute_mu(const MuRule& rule, const DynamicShift& shift,
                  int64_t image_seq_len, int steps) {
  FERRY_CHECK_GE(image_seq_len, 0);
  const auto tokens = static_cast<double>(image_seq_len);
  switch (rule.kind) {
    case MuKind::kLinear:
      return linear_mu(shift, tokens);
    case MuKind::kSquareRoot:
      return square_root_mu(shift, tokens);
    case MuKind::kEmpirical:
      return empirical_mu(tokens, steps);
    case MuKind::kFixed:
      break;
  }
  return rule.fixed;
}

}  // namespace ferry
