#include "platform/device/cuda/cuda_host_memory.h"

#include <fcntl.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "platform/base/check.h"
#include "platform/base/logging.h"
#include "platform/base/status_macros.h"
#include "platform/device/check_host_arena.h"
#include "platform/device/cuda/host_pages.h"

namespace ferry {
namespace {

bool can_write(int fd) {
  const int flags = ::fcntl(fd, F_GETFL);
  return flags >= 0 && (flags & O_ACCMODE) == O_RDWR;
}

}  // namespace

absl::StatusOr<void*> CudaHostMemory::allocate(int64_t bytes,
                                               absl::string_view label) {
  RETURN_IF_ERROR(check_host_arena(bytes, label));
  const int64_t size = round_to_pages(bytes);
  ASSIGN_OR_RETURN(const MemoryFile file,
                   MemoryFile::create("ferry-host", size));
  Arena arena;
  arena.bytes = bytes;
  ASSIGN_OR_RETURN(arena.mapping,
                   Mapping::map(file.fd(), 0, size, PROT_READ | PROT_WRITE));
  if (abilities_.numa_node) {
    const absl::Status near =
        prefer_numa_node(arena.mapping.data(), size, *abilities_.numa_node);
    // Slower, and right all the same.
    if (!near.ok()) log_debug("host memory", {{"note", near.message()}});
  }
  RETURN_IF_ERROR(
      populate_pages(arena.mapping.data(), size, options_.populate_threads));
  pin(&arena, label);
  return keep(std::move(arena));
}

absl::StatusOr<void*> CudaHostMemory::map_file(int fd, int64_t offset,
                                               int64_t bytes,
                                               absl::string_view label) {
  RETURN_IF_ERROR(check_host_file(fd, offset, bytes, label));
  Arena arena;
  arena.bytes = bytes;
  arena.is_file = true;
  // A device may register only what could be written. Where the file could be,
  // it is mapped so for as long as that takes.
  const bool opens_up = !abilities_.can_register_read_only && can_write(fd);
  arena.is_writable = opens_up;
  ASSIGN_OR_RETURN(arena.mapping,
                   Mapping::map(fd, offset, round_to_pages(bytes),
                                opens_up ? PROT_READ | PROT_WRITE : PROT_READ));
  pin(&arena, label);
  if (opens_up) {
    const absl::Status closed = arena.mapping.protect(PROT_READ);
    if (!closed.ok()) log_warning("host memory", {{"note", closed.message()}});
  }
  return keep(std::move(arena));
}

void CudaHostMemory::pin(Arena* arena, absl::string_view label) {
  if (!options_.pin_host_memory) return say_unpinned(label, "not asked for");
  const bool is_read_only = arena->is_file && !arena->is_writable;
  if (!abilities_.can_register ||
      (is_read_only && !abilities_.can_register_read_only)) {
    return say_unpinned(label, arena->is_file
                                   ? "the device registers no mapped files"
                                   : "the device registers no host memory");
  }
  const absl::Status registered =
      register_pieces(arena->mapping, is_read_only ? cudaHostRegisterReadOnly
                                                   : cudaHostRegisterDefault);
  arena->is_pinned = registered.ok();
  if (!registered.ok()) say_unpinned(label, registered.message());
}

absl::Status CudaHostMemory::register_pieces(const Mapping& mapping,
                                             unsigned flags) {
  for (int64_t done = 0; done < mapping.bytes();) {
    const int64_t piece =
        std::min(options_.register_bytes, mapping.bytes() - done);
    const absl::Status status =
        errors_.check(api_.host_register(mapping.data() + done,
                                         static_cast<size_t>(piece), flags),
                      "cudaHostRegister");
    if (!status.ok()) {
      const absl::Status rollback = unregister_pieces(mapping, done);
      if (!rollback.ok()) {
        log_warning("host memory", {{"rollback", rollback.message()}});
      }
      return absl::Status(
          status.code(),
          absl::StrCat(status.message(), ", for ", piece, " bytes from ", done,
                       " of ", mapping.bytes(), " bytes of host memory"));
    }
    done += piece;
  }
  return absl::OkStatus();
}

absl::Status CudaHostMemory::unregister_pieces(const Mapping& mapping,
                                               int64_t bytes) {
  absl::Status first;
  for (int64_t done = 0; done < bytes; done += options_.register_bytes) {
    absl::Status status = errors_.check(
        api_.host_unregister(mapping.data() + done), "cudaHostUnregister");
    if (first.ok()) first = std::move(status);
  }
  return first;
}

void CudaHostMemory::say_unpinned(absl::string_view label,
                                  absl::string_view reason) {
  if (said_unpinned_.exchange(true)) return;
  log_warning(
      "host memory is not page-locked: copies to the device go "
      "through staging buffers, which is slower",
      {{"arena", label}, {"reason", reason}});
}

void* CudaHostMemory::keep(Arena arena) {
  char* const data = arena.mapping.data();
  MutexLock lock(&mutex_);
  count(arena, 1);
  if (!arena.is_file) ++stats_.allocations;
  arenas_.emplace(data, std::move(arena));
  return data;
}

void CudaHostMemory::count(const Arena& arena, int64_t sign) {
  const int64_t bytes = sign * arena.mapping.bytes();
  if (arena.is_file) {
    (arena.is_pinned ? kinds_.mapped_bytes : kinds_.staged_bytes) += bytes;
    return;
  }
  (arena.is_pinned ? kinds_.pinned_bytes : kinds_.staged_bytes) += bytes;
  stats_.bytes_in_use += bytes;
  stats_.bytes_peak = std::max(stats_.bytes_peak, stats_.bytes_in_use);
}

absl::Status CudaHostMemory::free(void* data) {
  Arena arena;
  {
    MutexLock lock(&mutex_);
    const auto found = arenas_.find(static_cast<char*>(data));
    FERRY_CHECK(found != arenas_.end());
    arena = std::move(found->second);
    arenas_.erase(found);
    count(arena, -1);
  }
  if (!arena.is_pinned) return absl::OkStatus();
  return unregister_pieces(arena.mapping, arena.mapping.bytes());
}

CudaHostMemory::Place CudaHostMemory::find(const void* data,
                                           int64_t bytes) const {
  const char* const begin = static_cast<const char*>(data);
  MutexLock lock(&mutex_);
  const auto next = arenas_.upper_bound(begin);
  if (next == arenas_.begin()) return {};
  const auto& [start, arena] = *std::prev(next);
  const int64_t offset = begin - start;
  if (offset >= arena.bytes) return {};
  Place place;
  place.is_file = arena.is_file;
  if (bytes < 0 || offset > arena.bytes - bytes) {
    place.kind = Place::kAcross;
  } else if (arena.is_pinned) {
    place.kind = Place::kPinned;
    place.piece_bytes =
        options_.register_bytes - offset % options_.register_bytes;
  } else {
    place.kind = Place::kStaged;
  }
  return place;
}

DeviceStats::Memory CudaHostMemory::stats() const {
  MutexLock lock(&mutex_);
  return stats_;
}

DeviceStats::HostArenas CudaHostMemory::arenas() const {
  MutexLock lock(&mutex_);
  return kinds_;
}

}  // namespace ferry
