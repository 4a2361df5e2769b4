#pragma once

#include <cstdint>

#include "absl/time/time.h"

namespace ferry {

// Allows so many lines a second, with a burst, and counts the others.
//
// Pure: `now` is monotonic and comes from outside. Not thread-safe.
class LineBudget {
 public:
  static constexpr double kLinesPerSecond = 100;
  static constexpr double kBurst = 1000;

  // Whether the next line may pass.
  bool take(absl::Duration now);
  // How many could not since the last call.
  int64_t take_dropped();

 private:
  double tokens_ = kBurst;
  absl::Duration last_ = absl::ZeroDuration();
  int64_t dropped_ = 0;
};

}  // namespace ferry
