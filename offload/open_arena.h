#pragma once

#include <c10/core/Allocator.h>
#include <c10/core/StorageImpl.h>

#include <cstdint>
#include <memory>
#include <utility>

#include "platform/device/host_arena.h"

namespace ferry {

// Host memory of a device that is ordinary memory of tensors now: it lives for
// as long as one of them sees it.
class OpenArena {
 public:
  // REQUIRES: `access` opens all of `arena` for writing.
  OpenArena(HostArena arena, HostAccess access)
      : arena_(std::move(arena)), access_(std::move(access)) {}

  char* data() const { return access_.data(); }

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
