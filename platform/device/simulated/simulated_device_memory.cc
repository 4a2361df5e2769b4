// The memory of SimulatedDevice.

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "platform/base/status_macros.h"
#include "platform/device/simulated/access_history.h"
#include "platform/device/simulated/simulated_device.h"

namespace ferry {
namespace {

void add_allocation(DeviceStats::Memory* memory, int64_t used_bytes) {
  memory->bytes_in_use = used_bytes;
  memory->bytes_peak = std::max(memory->bytes_peak, used_bytes);
  ++memory->allocations;
}

AccessType host_type(AccessKind kind) {
  return kind == AccessKind::kRead ? AccessType::kHostRead
                                   : AccessType::kHostWrite;
}

std::string hex(const void* data) { return absl::StrFormat("%p", data); }

}  // namespace

absl::StatusOr<MemoryInfo> SimulatedDevice::memory_info() const {
  RETURN_IF_ERROR(engine_.error());
  MutexLock lock(&mutex_);
  return memory_.info();
}

int64_t SimulatedDevice::allocation_granularity() const {
  return DeviceMemory::kGranularity;
}

DeviceStats SimulatedDevice::stats() const {
  MutexLock lock(&mutex_);
  return stats_;
}

absl::StatusOr<DeviceArena> SimulatedDevice::allocate(int64_t bytes,
                                                      absl::string_view label) {
  RETURN_IF_ERROR(engine_.error());
  RETURN_IF_ERROR(faults_.hit(FaultPoint::kAllocate));
  MutexLock lock(&mutex_);
  ASSIGN_OR_RETURN(void* const data, memory_.allocate(bytes, label));
  const MemoryInfo info = memory_.info();
  add_allocation(&stats_.device, info.total_bytes - info.free_bytes);
  RETURN_IF_ERROR(order_host(AccessType::kAllocate, data, bytes));
  return DeviceArena(this, data, bytes);
}

absl::StatusOr<HostArena> SimulatedDevice::allocate_host(
    int64_t bytes, absl::string_view label) {
  RETURN_IF_ERROR(engine_.error());
  RETURN_IF_ERROR(faults_.hit(FaultPoint::kAllocateHost));
  MutexLock lock(&mutex_);
  ASSIGN_OR_RETURN(void* const data, host_memory_.allocate(bytes, label));
  add_allocation(&stats_.host, host_memory_.used_bytes());
  // Zero-filled, so it has content from the start.
  RETURN_IF_ERROR(order_host(AccessType::kHostWrite, data, bytes));
  return HostArena(this, data, bytes);
}

absl::StatusOr<HostArena> SimulatedDevice::map_host_file(
    int fd, int64_t offset, int64_t bytes, absl::string_view label) {
  RETURN_IF_ERROR(engine_.error());
  RETURN_IF_ERROR(faults_.hit(FaultPoint::kAllocateHost));
  MutexLock lock(&mutex_);
  ASSIGN_OR_RETURN(void* const data,
                   host_memory_.map_file(fd, offset, bytes, label));
  return HostArena(this, data, bytes);
}

absl::Status SimulatedDevice::free_device(void* data) {
  absl::Status status;
  int64_t bytes = 0;
  {
    MutexLock lock(&mutex_);
    bytes = memory_.find(data, 0)->bytes;
    status = order_host(AccessType::kFree, data, bytes);
  }
  // Whatever was forgotten, nothing may write to what belongs to somebody else.
  engine_.await_all();
  MutexLock lock(&mutex_);
  memory_.free(data);
  checker_.forget(AddressRange::of(data, bytes));
  const MemoryInfo info = memory_.info();
  stats_.device.bytes_in_use = info.total_bytes - info.free_bytes;
  return status;
}

absl::Status SimulatedDevice::free_host(void* data) {
  absl::Status status;
  int64_t bytes = 0;
  {
    MutexLock lock(&mutex_);
    bytes = host_memory_.find(data, 0)->bytes;
    status = order_host(AccessType::kFree, data, bytes);
  }
  engine_.await_all();
  MutexLock lock(&mutex_);
  host_memory_.free(data);
  checker_.forget(AddressRange::of(data, bytes));
  stats_.host.bytes_in_use = host_memory_.used_bytes();
  return status;
}

absl::Status SimulatedDevice::begin_host_access(AccessKind kind, void* data,
                                                int64_t bytes) {
  MutexLock lock(&mutex_);
  RETURN_IF_ERROR(order_host(host_type(kind), data, bytes));
  return host_memory_.begin_access(kind, data);
}

absl::Status SimulatedDevice::end_host_access(AccessKind kind, void* data,
                                              int64_t bytes) {
  MutexLock lock(&mutex_);
  // What was copied since the access began raced with it.
  const absl::Status status = order_host(host_type(kind), data, bytes);
  RETURN_IF_ERROR(host_memory_.end_access(kind, data));
  return status;
}

absl::StatusOr<SimulatedDevice::PlacedCopy> SimulatedDevice::place(
    const Copy& copy) const {
  if (copy.bytes < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("copy of ", copy.bytes, " bytes"));
  }
  PlacedCopy placed{copy};
  const bool reads_host = copy.kind == CopyKind::kHostToDevice;
  const bool writes_host = copy.kind == CopyKind::kDeviceToHost;
  if (!reads_host) {
    RETURN_IF_ERROR(require_device_bytes(copy.source, copy.bytes));
  }
  if (!writes_host) {
    RETURN_IF_ERROR(require_device_bytes(copy.destination, copy.bytes));
  }
  if (!reads_host && !writes_host) return placed;
  const void* const host = reads_host ? copy.source : copy.destination;
  const HostMemory::Arena* const arena = host_memory_.find(host, copy.bytes);
  if (arena == nullptr) {
    if (host_memory_.contains(host) || memory_.contains(host)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "copy: ", copy.bytes, " bytes at ", hex(host),
          " are neither inside of one host arena nor ordinary memory"));
    }
    placed.is_pageable = true;
    return placed;
  }
  if (writes_host && arena->is_file) {
    return absl::InvalidArgumentError(absl::StrCat(
        "copy: host arena \"", arena->label, "\" is a file and read-only"));
  }
  char* const engine_side = HostMemory::engine_address(*arena, host);
  if (reads_host) {
    placed.copy.source = engine_side;
  } else {
    placed.copy.destination = engine_side;
  }
  return placed;
}

absl::Status SimulatedDevice::require_device_bytes(const void* data,
                                                   int64_t bytes) const {
  if (memory_.find(data, bytes) != nullptr) return absl::OkStatus();
  return violation(absl::StrCat(bytes, " bytes at ", hex(data), " are ",
                                memory_.contains(data)
                                    ? "not in one arena of the device; "
                                      "they were freed, or are too many"
                                    : "no memory of the device"));
}

absl::Status SimulatedDevice::audit(const void* data, int64_t bytes) const {
  if (bytes == 0) return absl::OkStatus();
  MutexLock lock(&mutex_);
  if (memory_.find(data, bytes) != nullptr) return absl::OkStatus();
  if (host_memory_.contains(data)) {
    return violation(absl::StrCat(
        describe(AddressRange::of(data, bytes)),
        " are a host image; kernels read what is on the device only"));
  }
  return require_device_bytes(data, bytes);
}

std::string SimulatedDevice::describe(const AddressRange& range) const {
  const void* const data = reinterpret_cast<const void*>(range.begin);
  const auto bytes = static_cast<int64_t>(range.end - range.begin);
  const auto text = [bytes](int64_t offset, absl::string_view where,
                            absl::string_view label) {
    return absl::StrCat("bytes [", offset, ", ", offset + bytes, ") of ", where,
                        " arena \"", label, "\"");
  };
  if (const DeviceMemory::Arena* arena = memory_.find(data, 0)) {
    return text(static_cast<const char*>(data) - arena->data, "device",
                arena->label);
  }
  if (const HostMemory::Arena* arena = host_memory_.find(data, 0)) {
    return text(static_cast<const char*>(data) - arena->mapping.data(), "host",
                arena->label);
  }
  return absl::StrCat(bytes, " bytes at ", hex(data));
}

void SimulatedDevice::count(const PlacedCopy& placed) {
  const auto add = [&placed](DeviceStats::Copies* copies) {
    ++copies->count;
    copies->bytes += placed.copy.bytes;
  };
  switch (placed.copy.kind) {
    case CopyKind::kHostToDevice:
      add(&stats_.host_to_device);
      break;
    case CopyKind::kDeviceToHost:
      add(&stats_.device_to_host);
      break;
    case CopyKind::kDeviceToDevice:
      add(&stats_.device_to_device);
      break;
  }
  if (placed.is_pageable) add(&stats_.pageable);
}

}  // namespace ferry
