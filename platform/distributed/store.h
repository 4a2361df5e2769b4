#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace ferry {

// Keys and values that all ranks of a group see: how they find each other
// before they are joined.
//
// Values and numbers are apart: add() never meets what set() wrote, nor get()
// what add() did.
//
// Each generation of a group has a prefix of its own (PrefixStore), so that
// old and new ranks never meet.
//
// Threads: thread-safe.
// Errors: DEADLINE_EXCEEDED names the key that did not come in time;
//   UNAVAILABLE, whoever keeps the values cannot be reached;
//   INVALID_ARGUMENT, a key that the store cannot keep.
class Store {
 public:
  virtual ~Store() = default;

  // Replaces what the key had.
  [[nodiscard]] virtual absl::Status set(absl::string_view key,
                                         absl::string_view value) = 0;
  // Blocks until the key has a value.
  virtual absl::StatusOr<std::string> get(absl::string_view key,
                                          absl::Duration timeout) = 0;
  // Adds to the key's number, 0 where there is none, and returns the sum.
  virtual absl::StatusOr<int64_t> add(absl::string_view key,
                                      int64_t amount) = 0;
};

}  // namespace ferry
