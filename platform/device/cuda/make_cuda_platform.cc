#include "platform/device/cuda/make_cuda_platform.h"

#include "platform/device/cuda/cuda_platform.h"
#include "platform/device/cuda/cuda_runtime.h"
#include "platform/device/cuda/libtorch_cuda.h"

namespace ferry {

absl::StatusOr<std::unique_ptr<Platform>> make_cuda_platform(
    const CudaDeviceOptions& options) {
  return CudaPlatform::create(options, std::make_unique<CudaRuntime>(),
                              std::make_unique<LibtorchCuda>());
}

}  // namespace ferry
