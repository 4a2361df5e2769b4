#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "platform/device/platform.h"
#include "platform/device/platform_options.h"

namespace ferry {

// Makes the platform that `options` describe; the only place that knows the
// implementations. INVALID_ARGUMENT lists every option that is wrong, and the
// platforms that exist. NOT_FOUND, FAILED_PRECONDITION: what "cuda" lacks here;
// "auto" logs that, and is the CPU then.
//
// The first call comes before anything else of LibTorch: what that finds out
// about CUDA it keeps.
absl::StatusOr<std::unique_ptr<Platform>> get_platform(
    const PlatformOptions& options);

}  // namespace ferry
