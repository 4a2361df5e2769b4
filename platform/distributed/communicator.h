#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "platform/device/stream.h"

namespace ferry {

// Joins the devices of a group: collectives on device memory, in the order of
// a stream. NCCL's contract, or a stricter one.
//
// Order: every rank calls the same operations with the same sizes in the same
//   order, on one stream; on another one only when that work has ended. The
//   call returns before the work is done; the stream has done it when all ranks
//   have given it to theirs.
// Deadline: work that does not end within the communicator's timeout of being
//   *started* by its stream (waiting for other streams does not count) aborts
//   it.
// After an error, or abort(): the communicator is of no use, here and soon on
//   the other ranks. Work that is under way ends, with undefined bytes;
//   status() and later calls say why. No collective may be tried to repair it.
//
// Ownership: refers to the device, which outlives it. It must outlive the work.
// Threads: one call at a time; abort() and status() from any thread.
// Errors: as HostCommunicator's; RESOURCE_EXHAUSTED, no memory for it.
class Communicator {
 public:
  virtual ~Communicator() = default;

  // 0 to size() − 1.
  virtual int rank() const = 0;
  virtual int size() const = 0;

  // Cheap. Concatenates the `bytes` bytes at `in` of all ranks, in order of
  // rank, at `out`: size() × bytes. Each range lies in one DeviceArena; they do
  // not overlap.
  [[nodiscard]] virtual absl::Status all_gather(Stream stream, const void* in,
                                                void* out, int64_t bytes) = 0;

  // Returns at once. The first reason counts.
  virtual void abort(absl::string_view reason) = 0;
  // OK while it can be used. Finds errors of work that has ended by now, which
  // nothing else may tell: the stream goes on, and its events are complete.
  // Whoever relies on gathered bytes asks before he says that all went well.
  virtual absl::Status status() = 0;
};

}  // namespace ferry
