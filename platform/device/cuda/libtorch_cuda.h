#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "platform/device/cuda/cuda_torch.h"

namespace ferry {

// LibTorch's CUDA kernels, from libtorch_cuda.so, which lies beside the
// LibTorch that this program was linked with. It is opened here and nowhere
// else, so that one program runs with and without a GPU. The only file of this
// folder that includes LibTorch; it needs libc10's generic interfaces alone.
class LibtorchCuda final : public CudaTorch {
 public:
  absl::Status load(int device) override;
  int64_t current_stream(int device) const override;
  int64_t exchange_current_stream(int device, int64_t stream) override;
  cudaStream_t stream_handle(int device, int64_t stream) const override;
  void empty_cache() override;
};

}  // namespace ferry
