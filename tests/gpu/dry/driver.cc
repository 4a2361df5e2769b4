// CUDA's driver: the little that LibTorch asks it for. not_stood_in.cc has
// names of what it links and never calls.

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <cstdint>

#include "tests/gpu/dry/machine.h"

namespace ferry::dry {
namespace {

CUresult not_supported() {
  return static_cast<CUresult>(refuse(
      "not_stood_in", "a function of the driver", "", cudaErrorNotSupported));
}

CUresult driver_result(cudaError_t error) {
  return static_cast<CUresult>(error);
}

// A context's handle is its device's number, from 1 on.
CUcontext context_of(int device) {
  return reinterpret_cast<CUcontext>(static_cast<uintptr_t>(device) + 1);
}

}  // namespace
}  // namespace ferry::dry

using namespace ferry::dry;  // NOLINT: what follows is CUDA's interface.

extern "C" {

CUresult cuInit(unsigned /*flags*/) {
  return machine().options.devices == 0 ? CUDA_ERROR_NO_DEVICE : CUDA_SUCCESS;
}

CUresult cuDriverGetVersion(int* version) {
  return driver_result(cudaDriverGetVersion(version));
}

CUresult cuDeviceGetCount(int* count) {
  *count = machine().options.devices;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice* device, int index) {
  if (index < 0 || index >= machine().options.devices) {
    return CUDA_ERROR_INVALID_DEVICE;
  }
  *device = index;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute,
                              CUdevice device) {
  return driver_result(cudaDeviceGetAttribute(
      value, static_cast<cudaDeviceAttr>(attribute), device));
}

CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned* flags,
                                    int* active) {
  *flags = 0;
  *active = machine().contexts.exists(device) ? 1 : 0;
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  *context = context_of(device);
  return driver_result(
      machine().contexts.use(device, "cuDevicePrimaryCtxRetain"));
}

CUresult cuCtxGetCurrent(CUcontext* context) {
  const int device = this_thread().device;
  *context = machine().contexts.exists(device) ? context_of(device) : nullptr;
  return CUDA_SUCCESS;
}

CUresult cuCtxSetCurrent(CUcontext context) {
  const auto device = reinterpret_cast<uintptr_t>(context);
  return device == 0
             ? CUDA_SUCCESS
             : driver_result(cudaSetDevice(static_cast<int>(device) - 1));
}

CUresult cuGetErrorString(CUresult error, const char** text) {
  *text = cudaGetErrorString(static_cast<cudaError_t>(error));
  return CUDA_SUCCESS;
}

CUresult cuGetErrorName(CUresult error, const char** text) {
  *text = cudaGetErrorName(static_cast<cudaError_t>(error));
  return CUDA_SUCCESS;
}

CUresult cuPointerGetAttribute(void* value, CUpointer_attribute attribute,
                               CUdeviceptr address) {
  const DeviceMemory::Place place =
      machine().device_memory.find(reinterpret_cast<void*>(address));
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      if (place.device < 0) return CUDA_ERROR_INVALID_VALUE;
      *static_cast<int*>(value) = place.device;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_CONTEXT:
      if (place.device < 0) return CUDA_ERROR_INVALID_VALUE;
      *static_cast<CUcontext*>(value) = context_of(place.device);
      return CUDA_SUCCESS;
    default:
      return not_supported();
  }
}

CUresult cuLaunchKernel(CUfunction /*function*/, unsigned, unsigned, unsigned,
                        unsigned, unsigned, unsigned, unsigned, CUstream stream,
                        void** /*arguments*/, void** /*extra*/) {
  return driver_result(call("cuLaunchKernel", Needs::kContext,
                            [&] { return launch("cuLaunchKernel", stream); }));
}

}  // extern "C"

extern "C" cudaError_t cudaGetDriverEntryPointByVersion(
    const char* symbol, void** function, unsigned /*version*/,
    unsigned long long /*flags*/, cudaDriverEntryPointQueryResult* result) {
  *function = ::dlsym(RTLD_DEFAULT, symbol);
  if (*function == nullptr) {
    *function = reinterpret_cast<void*>(&not_supported);
  }
  if (result != nullptr) *result = cudaDriverEntryPointSuccess;
  return cudaSuccess;
}
