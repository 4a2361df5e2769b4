// The memory of CudaDevice.

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "platform/base/status_macros.h"
#include "platform/device/cuda/cuda_device.h"

namespace ferry {

absl::StatusOr<MemoryInfo> CudaDevice::memory_info() const {
  RETURN_IF_ERROR(errors_.failure());
  size_t free = 0;
  size_t total = 0;
  RETURN_IF_ERROR(
      errors_.check(api_.mem_get_info(&free, &total), "cudaMemGetInfo"));
  return MemoryInfo{static_cast<int64_t>(free), static_cast<int64_t>(total)};
}

absl::StatusOr<DeviceArena> CudaDevice::allocate(int64_t bytes,
                                                 absl::string_view label) {
  if (bytes <= 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("device memory: \"", label, "\" asks for ", bytes,
                     " bytes; an arena has at least one"));
  }
  RETURN_IF_ERROR(errors_.failure());
  void* data = nullptr;
  const absl::Status status = errors_.check(
      api_.malloc(&data, static_cast<size_t>(bytes)), "cudaMalloc");
  if (absl::IsResourceExhausted(status)) {
    const absl::StatusOr<MemoryInfo> info = memory_info();
    return absl::ResourceExhaustedError(absl::StrCat(
        "device memory: \"", label, "\" needs ", bytes, " bytes",
        info.ok() ? absl::StrCat(", and ", info->free_bytes, " of ",
                                 info->total_bytes, " are free")
                  : "",
        ": ", status.message()));
  }
  RETURN_IF_ERROR(status);
  const int64_t granularity = allocation_granularity();
  const int64_t taken = (bytes + granularity - 1) / granularity * granularity;
  MutexLock lock(&mutex_);
  arenas_.emplace(data, taken);
  DeviceStats::Memory& memory = stats_.device;
  memory.bytes_in_use += taken;
  memory.bytes_peak = std::max(memory.bytes_peak, memory.bytes_in_use);
  ++memory.allocations;
  return DeviceArena(this, data, bytes);
}

absl::Status CudaDevice::free_device(void* data) {
  {
    MutexLock lock(&mutex_);
    const auto arena = arenas_.find(data);
    stats_.device.bytes_in_use -= arena->second;
    arenas_.erase(arena);
  }
  return errors_.check(api_.free(data), "cudaFree");
}

absl::StatusOr<HostArena> CudaDevice::allocate_host(int64_t bytes,
                                                    absl::string_view label) {
  RETURN_IF_ERROR(errors_.failure());
  return own_host(host_memory_.allocate(bytes, label), bytes);
}

absl::StatusOr<HostArena> CudaDevice::map_host_file(int fd, int64_t offset,
                                                    int64_t bytes,
                                                    absl::string_view label) {
  RETURN_IF_ERROR(errors_.failure());
  return own_host(host_memory_.map_file(fd, offset, bytes, label), bytes);
}

// An arena that CUDA does not register serves all the same, but not on a device
// that failed then.
absl::StatusOr<HostArena> CudaDevice::own_host(absl::StatusOr<void*> data,
                                               int64_t bytes) {
  RETURN_IF_ERROR(data.status());
  HostArena arena(this, *data, bytes);
  RETURN_IF_ERROR(errors_.failure());
  return arena;
}

absl::Status CudaDevice::free_host(void* data) {
  return host_memory_.free(data);
}

absl::Status CudaDevice::begin_host_access(AccessKind kind, void* data,
                                           int64_t /*bytes*/) {
  if (kind == AccessKind::kWrite && host_memory_.find(data, 0).is_file) {
    return absl::PermissionDeniedError(
        "host memory: the arena is a file and read-only");
  }
  return absl::OkStatus();
}

DeviceStats CudaDevice::stats() const {
  DeviceStats stats;
  {
    MutexLock lock(&mutex_);
    stats = stats_;
  }
  stats.host = host_memory_.stats();
  stats.host_arenas = host_memory_.arenas();
  return stats;
}

}  // namespace ferry
