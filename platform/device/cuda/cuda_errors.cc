#include "platform/device/cuda/cuda_errors.h"

#include "absl/strings/str_cat.h"

namespace ferry {
namespace {

// The code for an error that leaves the device as it was; INTERNAL for all
// others.
absl::StatusCode code_of(cudaError_t error) {
  switch (error) {
    case cudaErrorMemoryAllocation:
      return absl::StatusCode::kResourceExhausted;
    case cudaErrorInvalidValue:
    case cudaErrorInvalidDevice:
    case cudaErrorInvalidMemcpyDirection:
    case cudaErrorInvalidResourceHandle:
      return absl::StatusCode::kInvalidArgument;
    case cudaErrorNotReady:
    case cudaErrorHostMemoryAlreadyRegistered:
    case cudaErrorHostMemoryNotRegistered:
    case cudaErrorNotPermitted:
    case cudaErrorNotSupported:
    case cudaErrorOperatingSystem:
      return absl::StatusCode::kFailedPrecondition;
    default:
      return absl::StatusCode::kInternal;
  }
}

}  // namespace

absl::Status CudaErrors::explain(cudaError_t result, absl::string_view call) {
  (void)api_.get_last_error();
  const bool is_sticky = api_.peek_at_last_error() != cudaSuccess;
  const absl::StatusCode code =
      is_sticky ? absl::StatusCode::kInternal : code_of(result);
  absl::Status status(
      code, absl::StrCat(call, ": ", api_.get_error_string(result), " (",
                         api_.get_error_name(result), ")"));
  if (code != absl::StatusCode::kInternal) return status;
  MutexLock lock(&mutex_);
  if (failure_.ok()) {
    failure_ = absl::InternalError(
        absl::StrCat("the device failed: ", status.message()));
    has_failed_.store(true, std::memory_order_release);
  }
  return failure_;
}

absl::Status CudaErrors::first_failure() const {
  MutexLock lock(&mutex_);
  return failure_;
}

}  // namespace ferry
