#pragma once

#include <cstdint>
#include <limits>

#include "platform/base/check.h"

namespace ferry {

// Arithmetic for sizes in bytes that come from files, flags and requests. A
// result that would not fit into int64_t becomes the largest one. A sum that is
// compared with what a machine has is then too large, and is refused, where an
// overflow would make it negative, and accepted.
//
// REQUIRES: no argument, of any of them, is negative.

constexpr int64_t saturating_add(int64_t a, int64_t b) {
  FERRY_CHECK_GE(a, 0);
  FERRY_CHECK_GE(b, 0);
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  return a > kMost - b ? kMost : a + b;
}

constexpr int64_t saturating_multiply(int64_t a, int64_t b) {
  FERRY_CHECK_GE(a, 0);
  FERRY_CHECK_GE(b, 0);
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  return b != 0 && a > kMost / b ? kMost : a * b;
}

// To a multiple of `step`. REQUIRES: step > 0.
constexpr int64_t saturating_round_up(int64_t value, int64_t step) {
  FERRY_CHECK_GE(value, 0);
  FERRY_CHECK_GT(step, 0);
  return saturating_multiply(value / step + (value % step == 0 ? 0 : 1), step);
}

}  // namespace ferry
