#pragma once

#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace ferry {

// Tells the time. Thread-safe.
//
// Product code takes a Clock so that tests can move time by hand.
class Clock {
 public:
  virtual ~Clock() = default;

  // Wall clock, for timestamps that people see.
  virtual absl::Time now() const = 0;
  // Time since an arbitrary point; never goes back. For timeouts.
  virtual absl::Duration monotonic() const = 0;

  // The system's clock; lives as long as the process.
  static const Clock& real();
};

}  // namespace ferry
