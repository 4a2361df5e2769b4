#pragma once

#include <memory>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "platform/device/cuda/cuda_device_options.h"
#include "platform/device/platform.h"
#include "platform/device/platform_options.h"

namespace ferry {

// Makes the platform that `options` describe; the only place that knows the
// implementations. INVALID_ARGUMENT lists every option that is wrong, and the
// platforms that exist. NOT_FOUND: there is no driver or no GPU at all, for
// "cuda"; "auto" logs that, and is the CPU then. FAILED_PRECONDITION, also for
// "auto": there is a GPU, and this rank's, or something that it needs, is
// missing; it is named.
//
// The first call comes before anything else of LibTorch: what that finds out
// about CUDA it keeps.
absl::StatusOr<std::unique_ptr<Platform>> get_platform(
    const PlatformOptions& options);

// The same where the CUDA platform is made otherwise: a seam for tests.
using MakeCudaPlatform =
    absl::FunctionRef<absl::StatusOr<std::unique_ptr<Platform>>(
        const CudaDeviceOptions&)>;
absl::StatusOr<std::unique_ptr<Platform>> get_platform(
    const PlatformOptions& options, MakeCudaPlatform make_cuda);

}  // namespace ferry
