#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "platform/device/cuda/cuda_device_options.h"
#include "platform/device/platform.h"

namespace ferry {

// The CUDA platform of this machine. Errors as CudaPlatform::create() says.
absl::StatusOr<std::unique_ptr<Platform>> make_cuda_platform(
    const CudaDeviceOptions& options);

}  // namespace ferry
