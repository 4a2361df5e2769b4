// CUDA's runtime: devices, contexts and errors.

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>

#include "tests/gpu/dry/machine.h"

namespace ferry::dry {
namespace {

// 13.0, for driver and runtime.
constexpr int kVersion = 13000;

bool exists(int device) {
  return device >= 0 && device < machine().options.devices;
}

cudaError_t unknown_device(const char* name, int device) {
  return refuse("device_unknown", name, "device " + std::to_string(device),
                cudaErrorInvalidDevice);
}

// The attributes of an H200 that LibTorch and Ferry ask for.
int attribute(cudaDeviceAttr name) {
  switch (name) {
    case cudaDevAttrComputeCapabilityMajor:
      return 9;
    case cudaDevAttrComputeCapabilityMinor:
      return 0;
    case cudaDevAttrMultiProcessorCount:
      return 132;
    case cudaDevAttrWarpSize:
      return 32;
    case cudaDevAttrMaxThreadsPerBlock:
    case cudaDevAttrMaxBlockDimX:
    case cudaDevAttrMaxBlockDimY:
      return 1024;
    case cudaDevAttrMaxBlockDimZ:
      return 64;
    case cudaDevAttrMaxGridDimX:
      return 0x7fffffff;
    case cudaDevAttrMaxGridDimY:
    case cudaDevAttrMaxGridDimZ:
      return 65535;
    case cudaDevAttrMaxThreadsPerMultiProcessor:
      return 2048;
    case cudaDevAttrMaxBlocksPerMultiprocessor:
      return 32;
    case cudaDevAttrMaxSharedMemoryPerBlock:
      return 48 << 10;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      return 227 << 10;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
      return 228 << 10;
    case cudaDevAttrMaxRegistersPerBlock:
    case cudaDevAttrMaxRegistersPerMultiprocessor:
      return 64 << 10;
    case cudaDevAttrL2CacheSize:
      return 50 << 20;
    case cudaDevAttrAsyncEngineCount:
      return 3;
    case cudaDevAttrClockRate:
      return 1980000;
    case cudaDevAttrConcurrentKernels:
    case cudaDevAttrUnifiedAddressing:
    case cudaDevAttrCooperativeLaunch:
    case cudaDevAttrHostRegisterSupported:
    case cudaDevAttrStreamPrioritiesSupported:
    case cudaDevAttrCanMapHostMemory:
      return 1;
    case cudaDevAttrHostRegisterReadOnlySupported:
      return machine().options.registers_read_only ? 1 : 0;
    default:
      return 0;
  }
}

void describe(int device, cudaDeviceProp* properties) {
  *properties = {};
  std::snprintf(properties->name, sizeof properties->name, "Dry CUDA device");
  properties->uuid.bytes[0] = static_cast<char>(device + 1);
  properties->totalGlobalMem = machine().device_memory.total_bytes();
  properties->sharedMemPerBlock = 48 << 10;
  properties->sharedMemPerBlockOptin = 227 << 10;
  properties->sharedMemPerMultiprocessor = 228 << 10;
  properties->reservedSharedMemPerBlock = 1 << 10;
  properties->regsPerBlock = 64 << 10;
  properties->regsPerMultiprocessor = 64 << 10;
  properties->warpSize = 32;
  properties->memPitch = 0x7fffffff;
  properties->maxThreadsPerBlock = 1024;
  for (int i = 0; i < 3; ++i) {
    properties->maxThreadsDim[i] = i < 2 ? 1024 : 64;
    properties->maxGridSize[i] = i < 1 ? 0x7fffffff : 65535;
  }
  properties->totalConstMem = 64 << 10;
  properties->major = 9;
  properties->minor = 0;
  properties->textureAlignment = 512;
  properties->multiProcessorCount = 132;
  properties->canMapHostMemory = 1;
  properties->concurrentKernels = 1;
  properties->pciBusID = 0x40 + device;
  properties->asyncEngineCount = 3;
  properties->unifiedAddressing = 1;
  properties->memoryBusWidth = 6144;
  properties->l2CacheSize = 50 << 20;
  properties->maxThreadsPerMultiProcessor = 2048;
  properties->maxBlocksPerMultiProcessor = 32;
  properties->streamPrioritiesSupported = 1;
  properties->cooperativeLaunch = 1;
  properties->hostRegisterSupported = 1;
  properties->hostRegisterReadOnlySupported =
      machine().options.registers_read_only ? 1 : 0;
}

struct ErrorName {
  cudaError_t error;
  const char* name;
  const char* text;
};

constexpr ErrorName kErrors[] = {
    {cudaSuccess, "cudaSuccess", "no error"},
    {cudaErrorInvalidValue, "cudaErrorInvalidValue", "invalid argument"},
    {cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation", "out of memory"},
    {cudaErrorInitializationError, "cudaErrorInitializationError",
     "initialization error"},
    {cudaErrorDevicesUnavailable, "cudaErrorDevicesUnavailable",
     "CUDA-capable device(s) is/are busy or unavailable"},
    {cudaErrorNoDevice, "cudaErrorNoDevice",
     "no CUDA-capable device is detected"},
    {cudaErrorInvalidDevice, "cudaErrorInvalidDevice",
     "invalid device ordinal"},
    {cudaErrorInvalidMemcpyDirection, "cudaErrorInvalidMemcpyDirection",
     "invalid copy direction for memcpy"},
    {cudaErrorECCUncorrectable, "cudaErrorECCUncorrectable",
     "uncorrectable ECC error encountered"},
    {cudaErrorOperatingSystem, "cudaErrorOperatingSystem",
     "OS call failed or operation not supported on this OS"},
    {cudaErrorInvalidResourceHandle, "cudaErrorInvalidResourceHandle",
     "invalid resource handle"},
    {cudaErrorNotReady, "cudaErrorNotReady", "device not ready"},
    {cudaErrorIllegalAddress, "cudaErrorIllegalAddress",
     "an illegal memory access was encountered"},
    {cudaErrorHostMemoryAlreadyRegistered,
     "cudaErrorHostMemoryAlreadyRegistered",
     "part or all of the requested memory range is already mapped"},
    {cudaErrorHostMemoryNotRegistered, "cudaErrorHostMemoryNotRegistered",
     "pointer does not correspond to a registered memory region"},
    {cudaErrorLaunchFailure, "cudaErrorLaunchFailure",
     "unspecified launch failure"},
    {cudaErrorNotPermitted, "cudaErrorNotPermitted", "operation not permitted"},
    {cudaErrorNotSupported, "cudaErrorNotSupported", "operation not supported"},
    {cudaErrorUnknown, "cudaErrorUnknown", "unknown error"},
};

const ErrorName* find_error(cudaError_t error) {
  const auto* const found =
      std::find_if(std::begin(kErrors), std::end(kErrors),
                   [error](const auto& each) { return each.error == error; });
  return found == std::end(kErrors) ? nullptr : found;
}

}  // namespace
}  // namespace ferry::dry

using namespace ferry::dry;  // NOLINT: what follows is CUDA's interface.

extern "C" {

cudaError_t cudaDriverGetVersion(int* version) {
  return call("cudaDriverGetVersion", Needs::kNothing, [&] {
    *version = kVersion;
    return cudaSuccess;
  });
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  return call("cudaRuntimeGetVersion", Needs::kNothing, [&] {
    *version = kVersion;
    return cudaSuccess;
  });
}

cudaError_t cudaGetDeviceCount(int* count) {
  return call("cudaGetDeviceCount", Needs::kNothing, [&] {
    *count = machine().options.devices;
    return *count == 0 ? cudaErrorNoDevice : cudaSuccess;
  });
}

cudaError_t cudaGetDevice(int* device) {
  return call("cudaGetDevice", Needs::kNothing, [&] {
    *device = this_thread().device;
    return cudaSuccess;
  });
}

cudaError_t cudaSetDevice(int device) {
  return call("cudaSetDevice", Needs::kNothing, [&] {
    if (!exists(device)) return unknown_device("cudaSetDevice", device);
    this_thread().device = device;
    this_thread().has_set_device = true;
    // As it does since CUDA 12.
    return machine().contexts.use(device, "cudaSetDevice");
  });
}

// Makes the context; the thread's current device stays.
cudaError_t cudaInitDevice(int device, unsigned /*device_flags*/,
                           unsigned /*flags*/) {
  return call("cudaInitDevice", Needs::kNothing, [&] {
    if (!exists(device)) return unknown_device("cudaInitDevice", device);
    return machine().contexts.init(device, "cudaInitDevice");
  });
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr name,
                                   int device) {
  return call("cudaDeviceGetAttribute", Needs::kNothing, [&] {
    if (!exists(device)) {
      return unknown_device("cudaDeviceGetAttribute", device);
    }
    *value = attribute(name);
    return cudaSuccess;
  });
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  return call("cudaGetDeviceProperties", Needs::kNothing, [&] {
    if (!exists(device)) {
      return unknown_device("cudaGetDeviceProperties", device);
    }
    describe(device, properties);
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceGetPCIBusId(char* id, int length, int device) {
  return call("cudaDeviceGetPCIBusId", Needs::kNothing, [&] {
    if (!exists(device)) {
      return unknown_device("cudaDeviceGetPCIBusId", device);
    }
    if (length < 13) return cudaErrorInvalidValue;
    std::snprintf(id, static_cast<size_t>(length), "0000:%02x:00.0",
                  0x40 + device);
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  return call("cudaDeviceCanAccessPeer", Needs::kNothing, [&] {
    if (!exists(device) || !exists(peer)) {
      return unknown_device("cudaDeviceCanAccessPeer",
                            exists(device) ? peer : device);
    }
    *can = device != peer ? 1 : 0;
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned /*flags*/) {
  return call("cudaDeviceEnablePeerAccess", Needs::kContext, [&] {
    if (!exists(peer)) {
      return unknown_device("cudaDeviceEnablePeerAccess", peer);
    }
    return machine().contexts.use(peer, "cudaDeviceEnablePeerAccess");
  });
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  return call("cudaDeviceGetStreamPriorityRange", Needs::kContext, [&] {
    *least = 0;
    *greatest = -5;
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceSynchronize() {
  return call("cudaDeviceSynchronize", Needs::kContext, [&] {
    Machine& all = machine();
    const int device = this_thread().device;
    all.report.count("synchronizing_calls");
    all.streams.wait(all.streams.last_of(device));
    return all.contexts.sticky_error(device);
  });
}

// The thread's last error, which is forgotten; a sticky one stays.
cudaError_t cudaGetLastError() {
  Thread& thread = this_thread();
  const cudaError_t sticky = machine().contexts.sticky_error(thread.device);
  const cudaError_t last = sticky != cudaSuccess ? sticky : thread.last_error;
  thread.last_error = cudaSuccess;
  return last;
}

cudaError_t cudaPeekAtLastError() {
  const Thread& thread = this_thread();
  const cudaError_t sticky = machine().contexts.sticky_error(thread.device);
  return sticky != cudaSuccess ? sticky : thread.last_error;
}

const char* cudaGetErrorName(cudaError_t error) {
  const ErrorName* const found = find_error(error);
  return found == nullptr ? "unrecognized error code" : found->name;
}

const char* cudaGetErrorString(cudaError_t error) {
  const ErrorName* const found = find_error(error);
  return found == nullptr ? "unrecognized error code" : found->text;
}

}  // extern "C"
