#include "offload/open_arena.h"

#include <c10/core/Device.h>

#include <cstddef>

#include "platform/base/status_macros.h"

namespace ferry {
namespace {

using Keeper = std::shared_ptr<const OpenArena>;

void delete_keeper(void* keeper) { delete static_cast<Keeper*>(keeper); }

}  // namespace

absl::StatusOr<std::shared_ptr<OpenArena>> OpenArena::open(
    const HostArena& arena, int64_t bytes) {
  ASSIGN_OR_RETURN(HostAccess access,
                   arena.access(AccessKind::kWrite, 0, bytes));
  return std::make_shared<OpenArena>(std::move(access));
}

at::DataPtr data_in(std::shared_ptr<const OpenArena> arena, char* data) {
  return {data, new Keeper(std::move(arena)), delete_keeper,
          c10::Device(c10::kCPU)};
}

c10::intrusive_ptr<c10::StorageImpl> make_storage(int64_t bytes,
                                                  at::DataPtr data,
                                                  c10::Allocator* allocator) {
  return c10::make_intrusive<c10::StorageImpl>(
      c10::StorageImpl::use_byte_size_t(), static_cast<size_t>(bytes),
      std::move(data), allocator, /*resizable=*/allocator != nullptr);
}

}  // namespace ferry
