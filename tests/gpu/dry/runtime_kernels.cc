// CUDA's runtime: kernels, which do nothing, and the variables of their code.

#include <cuda_runtime_api.h>

#include <map>
#include <utility>
#include <vector>

#include "platform/base/mutex.h"
#include "tests/gpu/dry/copies.h"
#include "tests/gpu/dry/machine.h"

namespace ferry::dry {
namespace {

struct LaunchConfiguration {
  dim3 grid;
  dim3 block;
  size_t shared_bytes;
  void* stream;
};

std::vector<LaunchConfiguration>& pushed() {
  thread_local std::vector<LaunchConfiguration> configurations;
  return configurations;
}

// Variables in device memory, each once on every device that asks for it.
class Variables {
 public:
  void add(const void* variable, size_t bytes) EXCLUDES_LOCK(mutex_) {
    MutexLock lock(&mutex_);
    bytes_[variable] = bytes;
  }

  cudaError_t find(const void* variable, int device, void** address)
      EXCLUDES_LOCK(mutex_) {
    MutexLock lock(&mutex_);
    const auto known = bytes_.find(variable);
    if (known == bytes_.end()) return cudaErrorInvalidSymbol;
    void*& place = addresses_[{variable, device}];
    if (place == nullptr) {
      const cudaError_t error =
          machine().device_memory.allocate(device, known->second, &place);
      if (error != cudaSuccess) return error;
    }
    *address = place;
    return cudaSuccess;
  }

 private:
  Mutex mutex_;
  std::map<const void*, size_t> bytes_ GUARDED_BY(mutex_);
  std::map<std::pair<const void*, int>, void*> addresses_ GUARDED_BY(mutex_);
};

Variables& variables() {
  static Variables* const kVariables = new Variables;
  return *kVariables;
}

}  // namespace
}  // namespace ferry::dry

using namespace ferry::dry;  // NOLINT: what follows is CUDA's interface.

extern "C" {

// --- What the compiler's code calls; its headers declare them for nvcc only.

void** __cudaRegisterFatBinary(void* /*binary*/) {
  static void* handle = nullptr;
  return &handle;
}

void __cudaRegisterFatBinaryEnd(void** /*handle*/) {}

void __cudaUnregisterFatBinary(void** /*handle*/) {}

void __cudaRegisterFunction(void** /*handle*/, const char* /*host_function*/,
                            char* /*device_function*/, const char* /*name*/,
                            int /*thread_limit*/, uint3* /*thread*/,
                            uint3* /*block*/, dim3* /*block_size*/,
                            dim3* /*grid_size*/, int* /*warp_size*/) {}

void __cudaRegisterVar(void** /*handle*/, char* variable, char* /*address*/,
                       const char* /*name*/, int /*external*/, size_t bytes,
                       int /*constant*/, int /*global*/) {
  variables().add(variable, bytes);
}

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared_bytes,
                                     void* stream) {
  pushed().push_back({grid, block, shared_bytes, stream});
  return 0;
}

cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block,
                                       size_t* shared_bytes, void* stream) {
  if (pushed().empty()) return cudaErrorMissingConfiguration;
  const LaunchConfiguration top = pushed().back();
  pushed().pop_back();
  *grid = top.grid;
  *block = top.block;
  *shared_bytes = top.shared_bytes;
  *static_cast<void**>(stream) = top.stream;
  return cudaSuccess;
}

cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* function) {
  *kernel = static_cast<cudaKernel_t>(const_cast<void*>(function));
  return cudaSuccess;
}

cudaError_t __cudaLaunchKernel(cudaKernel_t /*kernel*/, dim3 /*grid*/,
                               dim3 /*block*/, void** /*arguments*/,
                               size_t /*shared_bytes*/, cudaStream_t stream) {
  return call("cudaLaunchKernel", Needs::kContext,
              [&] { return launch("cudaLaunchKernel", stream); });
}

cudaError_t cudaLaunchKernel(const void* /*function*/, dim3 /*grid*/,
                             dim3 /*block*/, void** /*arguments*/,
                             size_t /*shared_bytes*/, cudaStream_t stream) {
  return call("cudaLaunchKernel", Needs::kContext,
              [&] { return launch("cudaLaunchKernel", stream); });
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config,
                                const void* /*function*/,
                                void** /*arguments*/) {
  return call("cudaLaunchKernelExC", Needs::kContext,
              [&] { return launch("cudaLaunchKernelExC", config->stream); });
}

cudaError_t cudaLaunchCooperativeKernel(const void* /*function*/, dim3 /*grid*/,
                                        dim3 /*block*/, void** /*arguments*/,
                                        size_t /*shared_bytes*/,
                                        cudaStream_t stream) {
  return call("cudaLaunchCooperativeKernel", Needs::kContext,
              [&] { return launch("cudaLaunchCooperativeKernel", stream); });
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes,
                                  const void* /*function*/) {
  return call("cudaFuncGetAttributes", Needs::kContext, [&] {
    *attributes = {};
    attributes->maxThreadsPerBlock = 1024;
    attributes->numRegs = 32;
    attributes->ptxVersion = 90;
    attributes->binaryVersion = 90;
    attributes->maxDynamicSharedSizeBytes = 48 << 10;
    return cudaSuccess;
  });
}

cudaError_t cudaFuncSetAttribute(const void* /*function*/,
                                 cudaFuncAttribute /*attribute*/,
                                 int /*value*/) {
  return call("cudaFuncSetAttribute", Needs::kContext,
              [] { return cudaSuccess; });
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
    int* blocks, const void* /*function*/, int /*block_size*/,
    size_t /*shared_bytes*/, unsigned /*flags*/) {
  return call("cudaOccupancyMaxActiveBlocksPerMultiprocessor", Needs::kContext,
              [&] {
                *blocks = 2;
                return cudaSuccess;
              });
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks,
                                                          const void* function,
                                                          int block_size,
                                                          size_t shared_bytes) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
      blocks, function, block_size, shared_bytes, 0);
}

cudaError_t cudaGetSymbolAddress(void** address, const void* symbol) {
  return call("cudaGetSymbolAddress", Needs::kContext, [&] {
    return variables().find(symbol, this_thread().device, address);
  });
}

cudaError_t cudaMemcpyToSymbol(const void* symbol, const void* from,
                               size_t bytes, size_t offset,
                               cudaMemcpyKind kind) {
  return call("cudaMemcpyToSymbol", Needs::kContext, [&] {
    void* address = nullptr;
    const cudaError_t error =
        variables().find(symbol, this_thread().device, &address);
    if (error != cudaSuccess) return error;
    return copy("cudaMemcpyToSymbol", static_cast<char*>(address) + offset,
                from, bytes, kind, nullptr, true);
  });
}

}  // extern "C"
