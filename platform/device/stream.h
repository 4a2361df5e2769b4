#pragma once

#include <cstdint>

namespace ferry {

// What a stream is for.
enum class StreamKind {
  // Kernels.
  kCompute,
  // Copies and collectives: runs beside compute, and before it where both want
  // the same hardware.
  kTransfer,
};

// Names a queue of work on a device: what it is given runs in order, and not
// before work of other streams that it was told to wait for.
//
// A value, free to copy; it owns nothing (StreamLease does). What `id` means is
// the business of the device that made it.
struct Stream {
  int64_t id = 0;
  StreamKind kind = StreamKind::kCompute;

  friend bool operator==(Stream a, Stream b) { return a.id == b.id; }
  friend bool operator!=(Stream a, Stream b) { return a.id != b.id; }
};

}  // namespace ferry
