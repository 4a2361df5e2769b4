#include "platform/device/simulated/copy_schedule.h"

#include <algorithm>
#include <cstddef>

namespace ferry {

CopySchedule::CopySchedule(const SimulatedDeviceOptions& options)
    : latency_(options.latency),
      host_to_device_{options.h2d_gbps},
      device_to_host_{options.d2h_gbps},
      engines_(static_cast<size_t>(options.copy_engines)) {}

CopySchedule::Times CopySchedule::add(CopyKind kind, int64_t bytes,
                                      absl::Duration ready,
                                      absl::Duration delay) {
  const auto engine = std::min_element(engines_.begin(), engines_.end());
  Times times;
  times.start = std::max(ready, *engine);
  times.end = times.start + latency_ + delay;
  if (kind != CopyKind::kDeviceToDevice) {
    Link& link =
        kind == CopyKind::kHostToDevice ? host_to_device_ : device_to_host_;
    times.end = std::max(times.end, link.free_at) +
                absl::Nanoseconds(static_cast<double>(bytes) / link.gbps);
    link.free_at = times.end;
  }
  *engine = times.end;
  return times;
}

}  // namespace ferry
