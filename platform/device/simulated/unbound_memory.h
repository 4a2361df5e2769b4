#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "platform/device/mapping.h"

namespace ferry {

// Read-only bytes of 0xFF for the tensors of blocks that are not on the
// device. Few pages, mapped again and again. Not thread-safe.
class UnboundMemory {
 public:
  // At least `bytes` of them. Stay for the object's life.
  absl::StatusOr<void*> at_least(int64_t bytes);
  bool contains(const void* data, int64_t bytes) const;

 private:
  // Each larger than the one before.
  std::vector<Mapping> mappings_;
};

}  // namespace ferry
