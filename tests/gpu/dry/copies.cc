#include "tests/gpu/dry/copies.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "platform/base/mutex.h"
#include "tests/gpu/dry/machine.h"

namespace ferry::dry {
namespace {

// Copies up to this size from pageable memory do not wait for the stream.
constexpr size_t kStagedAtOnce = 64 << 10;

// One side of a copy.
struct Side {
  bool is_device = false;
  int device = -1;
  char* bytes = nullptr;  // For the host.
  HostMemory::Place host;
};

std::string range_text(const void* data, size_t bytes) {
  return std::to_string(bytes) + " bytes at " +
         std::to_string(reinterpret_cast<uintptr_t>(data));
}

cudaError_t find_side(const char* call, const void* data, size_t bytes,
                      Side* side) {
  Machine& all = machine();
  const DeviceMemory::Place place = all.device_memory.find(data);
  if (place.device >= 0) {
    side->is_device = true;
    side->device = place.device;
    side->bytes = place.bytes;
    if (place.room == 0) {
      return refuse("device_memory_unknown", call, range_text(data, bytes),
                    cudaErrorInvalidValue);
    }
    if (place.room < bytes) {
      return refuse("device_memory_overrun", call,
                    range_text(data, bytes) + ", its allocation ends after " +
                        std::to_string(place.room),
                    cudaErrorInvalidValue);
    }
    return cudaSuccess;
  }
  side->bytes = static_cast<char*>(const_cast<void*>(data));
  side->host = all.host_memory.find(data, bytes);
  if (side->host.kind != HostMemory::Place::kAcross) return cudaSuccess;
  return refuse("copy_across_registrations", call, range_text(data, bytes),
                cudaErrorInvalidValue);
}

cudaError_t check_direction(const char* call, const Side& to, const Side& from,
                            cudaMemcpyKind kind) {
  const bool to_device =
      kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
  const bool from_device =
      kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
  if (kind == cudaMemcpyDefault ||
      (to_device == to.is_device && from_device == from.is_device)) {
    return cudaSuccess;
  }
  return refuse("copy_direction", call,
                std::string("from ") + (from.is_device ? "device" : "host") +
                    " to " + (to.is_device ? "device" : "host") +
                    " memory, as kind " + std::to_string(kind),
                cudaErrorInvalidValue);
}

// The ranges of host memory that copies under way use.
class InFlight {
 public:
  void add(const void* data, size_t bytes, CompletionPtr done)
      EXCLUDES_LOCK(mutex_) {
    MutexLock lock(&mutex_);
    ranges_.erase(std::remove_if(ranges_.begin(), ranges_.end(),
                                 [](const Range& range) {
                                   return machine().streams.is_done(range.done);
                                 }),
                  ranges_.end());
    ranges_.push_back({static_cast<const char*>(data), bytes, std::move(done)});
  }

  std::vector<CompletionPtr> of(const void* data, size_t bytes)
      EXCLUDES_LOCK(mutex_) {
    const char* const begin = static_cast<const char*>(data);
    MutexLock lock(&mutex_);
    std::vector<CompletionPtr> found;
    for (const Range& range : ranges_) {
      if (range.begin < begin + bytes && begin < range.begin + range.bytes &&
          !machine().streams.is_done(range.done)) {
        found.push_back(range.done);
      }
    }
    return found;
  }

 private:
  struct Range {
    const char* begin;
    size_t bytes;
    CompletionPtr done;
  };
  Mutex mutex_;
  std::vector<Range> ranges_ GUARDED_BY(mutex_);
};

InFlight& in_flight() {
  static InFlight* const kInFlight = new InFlight;
  return *kInFlight;
}

// The device whose stream it is, or an error.
cudaError_t find_stream(const char* call, cudaStream_t stream, int* device) {
  *device = machine().streams.device_of(stream, this_thread().device);
  if (*device >= 0) return cudaSuccess;
  return refuse("stream_unknown", call, "", cudaErrorInvalidResourceHandle);
}

cudaError_t wait_and_ask(const CompletionPtr& done, int device) {
  machine().report.count("synchronizing_calls");
  machine().streams.wait({done});
  return machine().contexts.sticky_error(device);
}

// What is wrong between the two sides and the stream's device.
cudaError_t check_sides(const char* call, const Side& to, const Side& from,
                        cudaMemcpyKind kind, int device) {
  if (cudaError_t error = check_direction(call, to, from, kind);
      error != cudaSuccess) {
    return error;
  }
  if (!to.is_device && to.host.is_read_only) {
    return refuse("copy_to_read_only", call, "", cudaErrorInvalidValue);
  }
  const bool is_peer =
      to.is_device && from.is_device && to.device != from.device;
  for (const Side* side : {&to, &from}) {
    // CUDA does it, and no rank of Ferry should want it.
    if (side->is_device && side->device != device && !is_peer) {
      machine().report.broke(
          "copy_on_foreign_stream", call,
          "memory of device " + std::to_string(side->device) +
              ", a stream of device " + std::to_string(device));
    }
  }
  return cudaSuccess;
}

}  // namespace

cudaError_t copy(const char* call, void* to, const void* from, size_t bytes,
                 cudaMemcpyKind kind, cudaStream_t stream, bool waits) {
  Machine& all = machine();
  int device = -1;
  if (cudaError_t error = find_stream(call, stream, &device);
      error != cudaSuccess) {
    return error;
  }
  if (bytes == 0) return cudaSuccess;
  Side destination;
  Side source;
  if (cudaError_t error = find_side(call, to, bytes, &destination);
      error != cudaSuccess) {
    return error;
  }
  if (cudaError_t error = find_side(call, from, bytes, &source);
      error != cudaSuccess) {
    return error;
  }
  if (cudaError_t error = check_sides(call, destination, source, kind, device);
      error != cudaSuccess) {
    return error;
  }
  const auto is_pageable = [](const Side& side) {
    return !side.is_device && side.host.kind == HostMemory::Place::kPageable;
  };
  all.report.count("copies");
  all.report.count("bytes_copied", static_cast<int64_t>(bytes));
  std::shared_ptr<std::string> staged;
  if (is_pageable(source) || is_pageable(destination)) {
    all.report.count("bytes_pageable", static_cast<int64_t>(bytes));
    if (is_pageable(destination) || bytes > kStagedAtOnce) waits = true;
  }
  if (is_pageable(source)) {
    staged = std::make_shared<std::string>(source.bytes, bytes);
  }
  const CompletionPtr done = all.streams.give(
      stream, device,
      faulty(device,
             [write = destination.bytes, read = source.bytes, bytes, staged] {
               std::memmove(write, staged ? staged->data() : read, bytes);
             }));
  for (const Side* side : {&destination, &source}) {
    if (!side->is_device && !is_pageable(*side)) {
      in_flight().add(side->bytes, bytes, done);
    }
  }
  return waits ? wait_and_ask(done, device) : cudaSuccess;
}

cudaError_t fill(const char* call, void* to, int value, size_t bytes,
                 cudaStream_t stream, bool waits) {
  Machine& all = machine();
  int device = -1;
  if (cudaError_t error = find_stream(call, stream, &device);
      error != cudaSuccess) {
    return error;
  }
  if (bytes == 0) return cudaSuccess;
  Side side;
  if (cudaError_t error = find_side(call, to, bytes, &side);
      error != cudaSuccess) {
    return error;
  }
  if (!side.is_device) {
    return refuse("device_memory_unknown", call, range_text(to, bytes),
                  cudaErrorInvalidValue);
  }
  const CompletionPtr done = all.streams.give(
      stream, device, faulty(device, [write = side.bytes, value, bytes] {
        std::memset(write, value, bytes);
      }));
  return waits ? wait_and_ask(done, device) : cudaSuccess;
}

std::vector<CompletionPtr> copies_of(const void* data, size_t bytes) {
  return in_flight().of(data, bytes);
}

}  // namespace ferry::dry
