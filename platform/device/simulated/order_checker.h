#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "absl/types/span.h"
#include "platform/device/simulated/access_history.h"
#include "platform/device/simulated/vector_clock.h"

namespace ferry {

// Finds accesses of the same bytes that nothing orders, whatever the timing
// made of them: a happens-before checker.
//
// The host and every stream have a clock. Work that is given to a stream comes
// after what the host did before the call, never the other way round: the host
// comes after a stream's work only when it waited for it (join_host). All
// threads of the host share one clock, since their own order is not the
// device's business.
//
// Not thread-safe.
class OrderChecker {
 public:
  struct Touch {
    AddressRange range;
    AccessType type;
  };

  // Operation `number` of `owner` touches bytes. A conflict leaves everything
  // as it was.
  std::optional<AccessConflict> access(int owner, int64_t number,
                                       absl::Span<const Touch> touches);
  // The bytes were freed.
  void forget(const AddressRange& range) { history_.forget(range); }

  // What is before a record of `stream` now.
  VectorClock record(int stream);
  // What is before a point at which the host waits for all streams.
  VectorClock everything() const;
  // Work that `stream` is given from now on comes after `clock`.
  void wait(int stream, const VectorClock& clock);
  // The host waited until what is before `clock` had ended.
  void join_host(const VectorClock& clock);

 private:
  VectorClock& clock_of(int owner) {
    return clocks_[static_cast<size_t>(owner)];
  }

  std::array<VectorClock, 1 + VectorClock::kMaxStreams> clocks_;
  AccessHistory history_;
};

}  // namespace ferry
