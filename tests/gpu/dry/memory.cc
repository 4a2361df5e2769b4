#include "tests/gpu/dry/memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <charconv>
#include <cstdint>
#include <fstream>
#include <iterator>

namespace ferry::dry {
namespace {

constexpr size_t kPage = 4096;
// As a GPU's allocator gives it out: small pieces apart, large ones whole.
constexpr size_t kLargePage = size_t{2} << 20;

size_t round_up(size_t bytes, size_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

}  // namespace

DeviceMemory::DeviceMemory(int devices, size_t bytes_each)
    : bytes_each_(round_up(bytes_each, kLargePage)),
      arenas_(static_cast<size_t>(devices)) {}

bool DeviceMemory::map(Arena* arena) const {
  if (arena->bytes != nullptr) return true;
  arena->fd = ::memfd_create("ferry-dry-cuda", MFD_CLOEXEC);
  if (arena->fd < 0 ||
      ::ftruncate(arena->fd, static_cast<off_t>(bytes_each_)) != 0) {
    return false;
  }
  void* const addresses =
      ::mmap(nullptr, bytes_each_, PROT_NONE, MAP_SHARED, arena->fd, 0);
  void* const bytes = ::mmap(nullptr, bytes_each_, PROT_READ | PROT_WRITE,
                             MAP_SHARED | MAP_NORESERVE, arena->fd, 0);
  if (addresses == MAP_FAILED || bytes == MAP_FAILED) return false;
  arena->addresses = static_cast<char*>(addresses);
  arena->bytes = static_cast<char*>(bytes);
  return true;
}

cudaError_t DeviceMemory::allocate(int device, size_t bytes, void** data) {
  MutexLock lock(&mutex_);
  Arena& arena = arenas_[static_cast<size_t>(device)];
  const size_t size =
      round_up(bytes, bytes < kLargePage / 2 ? kPage : kLargePage);
  if (size < bytes || size > bytes_each_ || !map(&arena)) {
    return cudaErrorMemoryAllocation;
  }
  // The first gap that is large enough.
  size_t begin = 0;
  for (const auto& [offset, used] : arena.used) {
    if (offset - begin >= size) break;
    begin = offset + used;
  }
  if (bytes_each_ - begin < size) return cudaErrorMemoryAllocation;
  arena.used.emplace(begin, size);
  arena.used_bytes += size;
  *data = arena.addresses + begin;
  return cudaSuccess;
}

int DeviceMemory::device_of(const char* data) const {
  for (size_t i = 0; i < arenas_.size(); ++i) {
    const Arena& arena = arenas_[i];
    if (arena.addresses != nullptr && data >= arena.addresses &&
        data < arena.addresses + bytes_each_) {
      return static_cast<int>(i);
    }
  }
  return -1;
}

int DeviceMemory::free(void* data) {
  MutexLock lock(&mutex_);
  const char* const address = static_cast<char*>(data);
  const int device = device_of(address);
  if (device < 0) return -1;
  Arena& arena = arenas_[static_cast<size_t>(device)];
  const auto found =
      arena.used.find(static_cast<size_t>(address - arena.addresses));
  if (found == arena.used.end()) return -1;
  // The pages go, and hold zeros when they come back.
  (void)::fallocate(arena.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                    static_cast<off_t>(found->first),
                    static_cast<off_t>(found->second));
  arena.used_bytes -= found->second;
  arena.used.erase(found);
  return device;
}

DeviceMemory::Place DeviceMemory::find(const void* data) const {
  MutexLock lock(&mutex_);
  Place place;
  const char* const address = static_cast<const char*>(data);
  place.device = device_of(address);
  if (place.device < 0) return place;
  const Arena& arena = arenas_[static_cast<size_t>(place.device)];
  const auto offset = static_cast<size_t>(address - arena.addresses);
  place.bytes = arena.bytes + offset;
  const auto next = arena.used.upper_bound(offset);
  if (next == arena.used.begin()) return place;
  const auto& [begin, size] = *std::prev(next);
  if (offset < begin + size) place.room = begin + size - offset;
  return place;
}

size_t DeviceMemory::free_bytes(int device) const {
  MutexLock lock(&mutex_);
  return bytes_each_ - arenas_[static_cast<size_t>(device)].used_bytes;
}

size_t DeviceMemory::allocations() const {
  MutexLock lock(&mutex_);
  size_t sum = 0;
  for (const Arena& arena : arenas_) sum += arena.used.size();
  return sum;
}

cudaError_t HostMemory::allocate(size_t bytes, void** data) {
  const size_t size = round_up(bytes, kPage);
  void* const memory = ::mmap(nullptr, size, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return cudaErrorMemoryAllocation;
  MutexLock lock(&mutex_);
  ranges_[static_cast<char*>(memory)] = {size, /*is_allocated=*/true, false};
  *data = memory;
  return cudaSuccess;
}

bool HostMemory::free(void* data) {
  MutexLock lock(&mutex_);
  const auto found = ranges_.find(static_cast<char*>(data));
  if (found == ranges_.end() || !found->second.is_allocated) return false;
  ::munmap(data, found->second.bytes);
  ranges_.erase(found);
  return true;
}

cudaError_t HostMemory::add(void* data, size_t bytes, unsigned flags,
                            const char** rule) {
  const auto refuse = [rule](const char* broken, cudaError_t error) {
    *rule = broken;
    return error;
  };
  const bool is_read_only = (flags & cudaHostRegisterReadOnly) != 0;
  if (bytes == 0 || reinterpret_cast<uintptr_t>(data) % kPage != 0 ||
      bytes % kPage != 0) {
    return refuse("register_unaligned", cudaErrorInvalidValue);
  }
  if (is_read_only && !registers_read_only_) {
    return refuse("register_flag_not_supported", cudaErrorNotSupported);
  }
  const PageAccess access = page_access(data, bytes);
  if (!access.is_mapped) {
    return refuse("register_not_mapped", cudaErrorInvalidValue);
  }
  if (!access.is_writable && !is_read_only) {
    return refuse("register_read_only", cudaErrorInvalidValue);
  }
  MutexLock lock(&mutex_);
  const char* const begin = static_cast<char*>(data);
  const auto next = ranges_.lower_bound(begin);
  const bool overlaps_next =
      next != ranges_.end() && next->first < begin + bytes;
  const bool overlaps_previous =
      next != ranges_.begin() &&
      std::prev(next)->first + std::prev(next)->second.bytes > begin;
  if (overlaps_next || overlaps_previous) {
    return refuse("register_overlap", cudaErrorHostMemoryAlreadyRegistered);
  }
  ranges_[begin] = {bytes, false, is_read_only};
  return cudaSuccess;
}

cudaError_t HostMemory::remove(void* data, const char** rule) {
  MutexLock lock(&mutex_);
  const auto found = ranges_.find(static_cast<char*>(data));
  if (found == ranges_.end() || found->second.is_allocated) {
    *rule = "unregister_unknown";
    return cudaErrorHostMemoryNotRegistered;
  }
  // CUDA does not see it; the device would have read freed pages until now.
  if (!page_access(data, found->second.bytes).is_mapped) {
    *rule = "unmapped_before_unregister";
  }
  ranges_.erase(found);
  return cudaSuccess;
}

HostMemory::Place HostMemory::find(const void* data, size_t bytes) const {
  MutexLock lock(&mutex_);
  const char* const begin = static_cast<const char*>(data);
  const auto next = ranges_.upper_bound(begin);
  Place place;
  if (next != ranges_.begin()) {
    const auto& [start, range] = *std::prev(next);
    if (begin < start + range.bytes) {
      place.kind = begin + bytes <= start + range.bytes ? Place::kPinned
                                                        : Place::kAcross;
      place.is_read_only = range.is_read_only;
      return place;
    }
  }
  if (next != ranges_.end() && next->first < begin + bytes) {
    place.kind = Place::kAcross;
  }
  return place;
}

size_t HostMemory::registrations() const {
  MutexLock lock(&mutex_);
  size_t sum = 0;
  for (const auto& [data, range] : ranges_) sum += range.is_allocated ? 0 : 1;
  return sum;
}

size_t HostMemory::registered_bytes(const void* data) const {
  MutexLock lock(&mutex_);
  const auto found = ranges_.find(static_cast<const char*>(data));
  return found == ranges_.end() ? 0 : found->second.bytes;
}

PageAccess page_access(const void* data, size_t bytes) {
  auto at = reinterpret_cast<uintptr_t>(data);
  const uintptr_t end = at + bytes;
  PageAccess access{false, true};
  std::ifstream maps("/proc/self/maps");
  // "7f0a4000-7f0a8000 r--p …", in the order of addresses.
  for (std::string line; at < end && std::getline(maps, line);) {
    uintptr_t from = 0;
    uintptr_t to = 0;
    const char* const stop = line.data() + line.size();
    const auto first = std::from_chars(line.data(), stop, from, 16);
    if (first.ec != std::errc() || first.ptr == stop) continue;
    const auto second = std::from_chars(first.ptr + 1, stop, to, 16);
    if (second.ec != std::errc() || stop - second.ptr < 3 || to <= at) continue;
    if (from > at) break;
    if (second.ptr[1] != 'r') break;
    if (second.ptr[2] != 'w') access.is_writable = false;
    at = to;
  }
  access.is_mapped = at >= end;
  access.is_writable = access.is_writable && access.is_mapped;
  return access;
}

}  // namespace ferry::dry
