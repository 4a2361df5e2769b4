#include "platform/device/simulated/host_memory.h"

#include <sys/mman.h>

#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "platform/base/check.h"
#include "platform/base/status_macros.h"
#include "platform/device/check_host_arena.h"

namespace ferry {

absl::StatusOr<void*> HostMemory::allocate(int64_t bytes,
                                           absl::string_view label) {
  RETURN_IF_ERROR(check_host_arena(bytes, label));
  const int64_t size = round_to_pages(bytes);
  ASSIGN_OR_RETURN(const MemoryFile file,
                   MemoryFile::create("ferry-host", size));
  Arena arena;
  arena.bytes = bytes;
  arena.label = std::string(label);
  ASSIGN_OR_RETURN(arena.mapping, Mapping::map(file.fd(), 0, size, PROT_NONE));
  ASSIGN_OR_RETURN(arena.engine_mapping,
                   Mapping::map(file.fd(), 0, size, PROT_READ | PROT_WRITE));
  used_bytes_ += size;
  char* const data = arena.mapping.data();
  arenas_.emplace(data, std::move(arena));
  return data;
}

absl::StatusOr<void*> HostMemory::map_file(int fd, int64_t offset,
                                           int64_t bytes,
                                           absl::string_view label) {
  RETURN_IF_ERROR(check_host_file(fd, offset, bytes, label));
  Arena arena;
  arena.bytes = bytes;
  arena.is_file = true;
  arena.label = std::string(label);
  ASSIGN_OR_RETURN(arena.mapping, Mapping::map(fd, offset, bytes, PROT_NONE));
  ASSIGN_OR_RETURN(arena.engine_mapping,
                   Mapping::map(fd, offset, bytes, PROT_READ));
  char* const data = arena.mapping.data();
  arenas_.emplace(data, std::move(arena));
  return data;
}

void HostMemory::free(void* data) {
  const auto arena = arenas_.find(static_cast<char*>(data));
  FERRY_CHECK(arena != arenas_.end());
  if (!arena->second.is_file) used_bytes_ -= arena->second.mapping.bytes();
  arenas_.erase(arena);
}

const HostMemory::Arena* HostMemory::find(const void* data,
                                          int64_t bytes) const {
  const char* const begin = static_cast<const char*>(data);
  const auto next = arenas_.upper_bound(begin);
  if (next == arenas_.begin()) return nullptr;
  const auto& [start, arena] = *std::prev(next);
  const int64_t offset = begin - start;
  if (bytes < 0 || offset >= arena.bytes || offset > arena.bytes - bytes) {
    return nullptr;
  }
  return &arena;
}

HostMemory::Arena& HostMemory::arena_of(const void* data) {
  const auto next = arenas_.upper_bound(static_cast<const char*>(data));
  FERRY_CHECK(next != arenas_.begin());
  auto& [start, arena] = *std::prev(next);
  FERRY_CHECK_LE(static_cast<const char*>(data) - start, arena.bytes);
  return arena;
}

absl::Status HostMemory::begin_access(AccessKind kind, const void* data) {
  Arena& arena = arena_of(data);
  if (kind == AccessKind::kWrite && arena.is_file) {
    return absl::PermissionDeniedError(absl::StrCat(
        "host memory: \"", arena.label, "\" is a file and read-only"));
  }
  int& count = kind == AccessKind::kWrite ? arena.writers : arena.readers;
  ++count;
  absl::Status status = protect(arena);
  if (!status.ok()) --count;
  return status;
}

absl::Status HostMemory::end_access(AccessKind kind, const void* data) {
  Arena& arena = arena_of(data);
  int& count = kind == AccessKind::kWrite ? arena.writers : arena.readers;
  FERRY_CHECK_GT(count, 0);
  --count;
  return protect(arena);
}

absl::Status HostMemory::protect(Arena& arena) {
  int protection = PROT_NONE;
  if (arena.readers > 0) protection |= PROT_READ;
  if (arena.writers > 0) protection |= PROT_READ | PROT_WRITE;
  return arena.mapping.protect(protection);
}

}  // namespace ferry
