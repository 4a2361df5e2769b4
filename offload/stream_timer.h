#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "platform/device/device.h"
#include "platform/device/event.h"
#include "platform/device/stream.h"

namespace ferry {

// Adds up how long pieces of a stream's work take there, without making the
// host wait: a timed event before and one after each, which are looked at when
// they are complete.
//
// So many pieces as it was made for can be under way; one that begins beyond
// that is not timed. All are on one stream. After create() it allocates
// nothing.
//
// Ownership: owns the events; the device must outlive it.
// Threads: not thread-safe.
// Errors: the device's, as they are; a piece whose end was not told is not
//   counted.
class StreamTimer {
 public:
  // Times nothing.
  StreamTimer() = default;
  static absl::StatusOr<StreamTimer> create(Device& device, size_t pieces);

  // The piece is what the stream is given between these two calls. `amount`
  // is what it is about, in any unit.
  absl::Status begin(Stream stream);
  absl::Status end(Stream stream, int64_t amount);

  // Looks at what has ended since the last time.
  absl::Status collect();
  // Of the pieces that ended and were looked at.
  absl::Duration time() const { return time_; }
  int64_t amount() const { return amount_; }

 private:
  struct Piece {
    Event start;
    Event end;
    int64_t amount = 0;
  };

  Device* device_ = nullptr;
  // A ring: those under way start at the oldest.
  std::vector<Piece> pieces_;
  size_t oldest_ = 0;
  size_t under_way_ = 0;
  // Between begin() and end(), of a piece that is timed.
  bool is_open_ = false;
  absl::Duration time_;
  int64_t amount_ = 0;
};

}  // namespace ferry
