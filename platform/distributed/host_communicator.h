#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace ferry {

// Joins the ranks of a group through host memory: votes, digests, and, where
// device memory is host memory, weights.
//
// Order: every rank calls the same operations with the same sizes in the same
//   order; the n-th call of one rank meets the n-th of every other. Calls that
//   do not match are an error of all ranks where that can be told.
// Blocking: each call blocks until all ranks have made it, at most `timeout`.
// After an error, or abort(): the communicator is of no use, on this rank and
//   soon on all others: every call, those that block included, returns that
//   first error. Nobody may try to repair it by another collective; the group
//   ends.
// Leaving: to destroy it. Calls that all ranks have made still end well; later
//   ones of other ranks are UNAVAILABLE.
//
// Threads: one call at a time; abort() and status() from any thread.
// Errors: DEADLINE_EXCEEDED, a rank did not come in time; UNAVAILABLE, a rank
//   is gone or has aborted; FAILED_PRECONDITION, ranks disagree about the call;
//   INVALID_ARGUMENT, sizes that no group could use (nothing was sent, and the
//   communicator stays usable).
class HostCommunicator {
 public:
  virtual ~HostCommunicator() = default;

  // 0 to size() − 1.
  virtual int rank() const = 0;
  virtual int size() const = 0;

  // Concatenates the `bytes` bytes at `in` of all ranks, in order of rank, at
  // `out`: size() × bytes. The ranges do not overlap.
  [[nodiscard]] virtual absl::Status all_gather(const void* in, void* out,
                                                int64_t bytes,
                                                absl::Duration timeout) = 0;
  // The bitwise OR of every rank's bits.
  virtual absl::StatusOr<uint64_t> all_reduce_or(uint64_t bits,
                                                 absl::Duration timeout) = 0;

  // Ends every call, here and on the other ranks, with UNAVAILABLE and
  // `reason`. Returns at once. The first reason counts.
  virtual void abort(absl::string_view reason) = 0;
  // OK while it can be used.
  virtual absl::Status status() const = 0;
};

// Each rank's text, in order of rank; lengths may differ.
absl::StatusOr<std::vector<std::string>> all_gather_strings(
    HostCommunicator& communicator, absl::string_view mine,
    absl::Duration timeout);

// Blocks until all ranks have called it.
[[nodiscard]] absl::Status barrier(HostCommunicator& communicator,
                                   absl::Duration timeout);

}  // namespace ferry
