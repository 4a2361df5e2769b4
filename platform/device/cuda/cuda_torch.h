#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "absl/status/status.h"

namespace ferry {

// LibTorch's side of a CUDA device: its kernels, the stream that they are
// launched on, and the memory that it caches. A seam, since this folder knows
// no LibTorch; LibtorchCuda is the real one.
//
// Streams are numbered as LibTorch numbers them: 0 is the default stream, and a
// stream of somebody else's has its handle's value.
//
// Threads: thread-safe; a current stream belongs to the calling thread.
class CudaTorch {
 public:
  virtual ~CudaTorch() = default;

  // Opens LibTorch's CUDA kernels and readies `device` for them. Nothing else
  // may be called before it returned OK. FAILED_PRECONDITION names the library
  // that is missing.
  [[nodiscard]] virtual absl::Status load(int device) = 0;
  virtual int64_t current_stream(int device) const = 0;
  // Returns the one before.
  virtual int64_t exchange_current_stream(int device, int64_t stream) = 0;
  virtual cudaStream_t stream_handle(int device, int64_t stream) const = 0;
  virtual void empty_cache() = 0;
};

}  // namespace ferry
