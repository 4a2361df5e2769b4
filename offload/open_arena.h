#pragma once

#include <c10/core/Allocator.h>
#include <c10/core/StorageImpl.h>

#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "platform/base/check.h"
#include "platform/device/host_arena.h"

namespace ferry {

// Host memory of a device that becomes ordinary memory of tensors: it lives for
// as long as one of them sees it.
//
//   open(arena) → data_in()… → the tensors see it → keep(arena)
//
// Until keep() the arena is the caller's: when something fails before that,
// nothing is lost.
class OpenArena {
 public:
  // Opens the first `bytes` bytes for writing. Errors: as HostArena::access().
  static absl::StatusOr<std::shared_ptr<OpenArena>> open(const HostArena& arena,
                                                         int64_t bytes);

  explicit OpenArena(HostAccess access) : access_(std::move(access)) {}

  char* data() const { return access_.data(); }

  // Takes the arena that was opened. REQUIRES: it is that one.
  void keep(HostArena arena) {
    FERRY_CHECK(arena.data() != nullptr && arena.data() == data());
    arena_ = std::move(arena);
  }

 private:
  HostArena arena_;
  // Ends before the arena does.
  HostAccess access_;
};

// A pointer into an open arena, which keeps it.
at::DataPtr data_in(std::shared_ptr<const OpenArena> arena, char* data);

// A storage of so many bytes. With `allocator` it can be given more.
c10::intrusive_ptr<c10::StorageImpl> make_storage(
    int64_t bytes, at::DataPtr data, c10::Allocator* allocator = nullptr);

}  // namespace ferry
