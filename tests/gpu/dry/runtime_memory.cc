// CUDA's runtime: memory and copies.

#include <cuda_runtime_api.h>

#include <cstdint>
#include <string>
#include <vector>

#include "tests/gpu/dry/copies.h"
#include "tests/gpu/dry/machine.h"

using namespace ferry::dry;  // NOLINT: what follows is CUDA's interface.

extern "C" {

cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  return call("cudaMemGetInfo", Needs::kContext, [&] {
    *free = machine().device_memory.free_bytes(this_thread().device);
    *total = machine().device_memory.total_bytes();
    return cudaSuccess;
  });
}

cudaError_t cudaMalloc(void** data, size_t bytes) {
  return call("cudaMalloc", Needs::kContext, [&] {
    if (data == nullptr) return cudaErrorInvalidValue;
    *data = nullptr;
    if (bytes == 0) return cudaSuccess;
    return machine().device_memory.allocate(this_thread().device, bytes, data);
  });
}

cudaError_t cudaFree(void* data) {
  return call("cudaFree", Needs::kContext, [&] {
    if (data == nullptr) return cudaSuccess;
    Machine& all = machine();
    const DeviceMemory::Place place = all.device_memory.find(data);
    // What the device does may read it: CUDA waits for that.
    if (place.device >= 0) {
      all.report.count("synchronizing_calls");
      all.streams.wait(all.streams.last_of(place.device));
    }
    if (all.device_memory.free(data) >= 0) return cudaSuccess;
    return refuse("free_unknown", "cudaFree", "no allocation begins there",
                  cudaErrorInvalidValue);
  });
}

cudaError_t cudaHostAlloc(void** data, size_t bytes, unsigned /*flags*/) {
  return call("cudaHostAlloc", Needs::kContext, [&] {
    if (data == nullptr) return cudaErrorInvalidValue;
    *data = nullptr;
    if (bytes == 0) return cudaSuccess;
    return machine().host_memory.allocate(bytes, data);
  });
}

cudaError_t cudaFreeHost(void* data) {
  return call("cudaFreeHost", Needs::kContext, [&] {
    if (data == nullptr) return cudaSuccess;
    Machine& all = machine();
    all.report.count("synchronizing_calls");
    all.streams.wait(all.streams.last_of(this_thread().device));
    all.streams.wait(copies_of(data, 1));
    if (all.host_memory.free(data)) return cudaSuccess;
    return refuse("free_host_unknown", "cudaFreeHost",
                  "cudaHostAlloc did not give it", cudaErrorInvalidValue);
  });
}

cudaError_t cudaHostRegister(void* data, size_t bytes, unsigned flags) {
  return call("cudaHostRegister", Needs::kContext, [&] {
    const char* rule = nullptr;
    const cudaError_t error =
        machine().host_memory.add(data, bytes, flags, &rule);
    if (error == cudaSuccess) {
      machine().report.count("bytes_registered", static_cast<int64_t>(bytes));
      return error;
    }
    return refuse(
        rule, "cudaHostRegister",
        std::to_string(bytes) + " bytes, flags " + std::to_string(flags),
        error);
  });
}

cudaError_t cudaHostUnregister(void* data) {
  return call("cudaHostUnregister", Needs::kContext, [&] {
    const std::vector<CompletionPtr> copies =
        copies_of(data, machine().host_memory.registered_bytes(data));
    if (!copies.empty()) {
      machine().report.broke("unregister_in_use", "cudaHostUnregister",
                             "a copy under way reads or writes it");
      machine().streams.wait(copies);
    }
    const char* rule = nullptr;
    const cudaError_t error = machine().host_memory.remove(data, &rule);
    if (rule == nullptr) return error;
    return refuse(rule, "cudaHostUnregister", "", error);
  });
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes,
                                     const void* data) {
  return call("cudaPointerGetAttributes", Needs::kNothing, [&] {
    *attributes = {};
    attributes->type = cudaMemoryTypeUnregistered;
    attributes->device = this_thread().device;
    attributes->hostPointer = const_cast<void*>(data);
    const DeviceMemory::Place place = machine().device_memory.find(data);
    if (place.device >= 0 && place.room > 0) {
      attributes->type = cudaMemoryTypeDevice;
      attributes->device = place.device;
      attributes->devicePointer = const_cast<void*>(data);
      attributes->hostPointer = nullptr;
    } else if (machine().host_memory.find(data, 1).kind ==
               HostMemory::Place::kPinned) {
      attributes->type = cudaMemoryTypeHost;
      attributes->devicePointer = const_cast<void*>(data);
    }
    return cudaSuccess;
  });
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes,
                            cudaMemcpyKind kind, cudaStream_t stream) {
  return call("cudaMemcpyAsync", Needs::kContext, [&] {
    return copy("cudaMemcpyAsync", to, from, bytes, kind, stream, false);
  });
}

cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes,
                       cudaMemcpyKind kind) {
  return call("cudaMemcpy", Needs::kContext, [&] {
    return copy("cudaMemcpy", to, from, bytes, kind, nullptr,
                kind != cudaMemcpyDeviceToDevice);
  });
}

cudaError_t cudaMemcpyPeerAsync(void* to, int to_device, const void* from,
                                int from_device, size_t bytes,
                                cudaStream_t stream) {
  return call("cudaMemcpyPeerAsync", Needs::kContext, [&] {
    const DeviceMemory& memory = machine().device_memory;
    if (memory.find(to).device != to_device ||
        memory.find(from).device != from_device) {
      return refuse("device_memory_unknown", "cudaMemcpyPeerAsync",
                    "a side is not of the device that it is said to be of",
                    cudaErrorInvalidValue);
    }
    return copy("cudaMemcpyPeerAsync", to, from, bytes,
                cudaMemcpyDeviceToDevice, stream, false);
  });
}

cudaError_t cudaMemsetAsync(void* data, int value, size_t bytes,
                            cudaStream_t stream) {
  return call("cudaMemsetAsync", Needs::kContext, [&] {
    return fill("cudaMemsetAsync", data, value, bytes, stream, false);
  });
}

cudaError_t cudaMemset(void* data, int value, size_t bytes) {
  return call("cudaMemset", Needs::kContext, [&] {
    return fill("cudaMemset", data, value, bytes, nullptr, false);
  });
}

}  // extern "C"
