#pragma once

#include <cstdint>
#include <vector>

#include "absl/time/time.h"
#include "platform/device/device.h"
#include "platform/device/simulated/simulated_device_options.h"

namespace ferry {

// When copies start and end: what the rates, the latency and the number of
// copy engines make of them. It reckons with set times, so that a thread that
// wakes late delays one copy, and not all after it.
//
// Copies of one direction share its link: their latencies overlap, their bytes
// do not. Copies inside of the device take the latency only.
//
// Not thread-safe.
class CopySchedule {
 public:
  struct Times {
    absl::Duration start;
    absl::Duration end;
  };

  explicit CopySchedule(const SimulatedDeviceOptions& options);

  // Schedules a copy that may start at `ready`, on the engine that is free
  // first, and takes `delay` more than usual.
  Times add(CopyKind kind, int64_t bytes, absl::Duration ready,
            absl::Duration delay);

 private:
  struct Link {
    double gbps;
    absl::Duration free_at = absl::ZeroDuration();
  };

  absl::Duration latency_;
  Link host_to_device_;
  Link device_to_host_;
  // When each engine is free.
  std::vector<absl::Duration> engines_;
};

}  // namespace ferry
