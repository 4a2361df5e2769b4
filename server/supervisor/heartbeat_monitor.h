#pragma once

#include <optional>
#include <string>

#include "absl/time/time.h"
#include "ferry/worker/v1/worker_service.pb.h"

namespace ferry {

// Judges what a rank answers to heartbeats, and that it does not.
//
// Pure. Not thread-safe.
class HeartbeatMonitor {
 public:
  // A heartbeat is given up after heartbeat_timeout ÷ kAttempts, and a rank
  // after that many in a row: one alone may be late because ferryd itself was
  // stopped meanwhile.
  static constexpr int kAttempts = 3;

  struct Options {
    absl::Duration heartbeat_timeout = absl::Seconds(15);
    // Longest time without progress of a generation.
    absl::Duration step_timeout = absl::Seconds(120);
    // Longest time from a cancel to the end of the generation.
    absl::Duration cancel_grace = absl::Seconds(30);
  };

  explicit HeartbeatMonitor(const Options& options) : options_(options) {}

  absl::Duration attempt_timeout() const {
    return options_.heartbeat_timeout / kAttempts;
  }

  // Both return why the rank is lost, or nothing.
  std::optional<std::string> on_answer(
      const worker::v1::HeartbeatResponse& answer);
  std::optional<std::string> on_timeout();

 private:
  const Options options_;
  int missed_ = 0;
};

}  // namespace ferry
