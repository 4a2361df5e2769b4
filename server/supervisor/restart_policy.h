#pragma once

#include <deque>
#include <functional>
#include <optional>

#include "absl/time/time.h"

namespace ferry {

// Says when a worker group that was lost may start again.
//
// The first restart is immediate; the n-th within the window waits
// backoff_min · 2^(n − 2), at most backoff_max, times a factor from 0.8 to 1.2
// (so that groups that died together do not load together). Beyond `limit`
// restarts within the window the budget is spent. Restarts that are older than
// the window are forgotten.
//
// Pure: time and chance come from outside. Not thread-safe.
class RestartPolicy {
 public:
  struct Options {
    absl::Duration backoff_min = absl::Seconds(1);
    absl::Duration backoff_max = absl::Seconds(60);
    // 0: never restart.
    int limit = 5;
    absl::Duration window = absl::Minutes(10);
  };

  // `random` returns numbers in [0, 1).
  RestartPolicy(const Options& options, std::function<double()> random);

  // A group was lost at `now` (monotonic). Returns how long to wait before the
  // next one starts, or nothing when the budget is spent.
  std::optional<absl::Duration> next_delay(absl::Duration now);

 private:
  const Options options_;
  const std::function<double()> random_;
  // When the restarts of the window were granted.
  std::deque<absl::Duration> restarts_;
};

}  // namespace ferry
