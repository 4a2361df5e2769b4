#include "platform/device/cuda/cuda_errors.h"

#include <cstddef>
#include <string>

#include "absl/strings/str_cat.h"

namespace ferry {
namespace {

// The code for an error that leaves the device as it was.
absl::StatusCode code_of(cudaError_t error) {
  switch (error) {
    case cudaErrorMemoryAllocation:
      return absl::StatusCode::kResourceExhausted;
    case cudaErrorInvalidValue:
    case cudaErrorInvalidDevice:
    case cudaErrorInvalidMemcpyDirection:
    case cudaErrorInvalidResourceHandle:
      return absl::StatusCode::kInvalidArgument;
    default:
      return absl::StatusCode::kFailedPrecondition;
  }
}

}  // namespace

absl::Status CudaErrors::explain(cudaError_t result, absl::string_view call) {
  (void)api_.get_last_error();
  std::string message = absl::StrCat(call, ": ", api_.get_error_string(result),
                                     " (", api_.get_error_name(result), ")");
  const cudaError_t lasting = ask_for_error();
  if (lasting == cudaSuccess) return {code_of(result), message};
  if (lasting != result) {
    absl::StrAppend(&message, "; then ", api_.get_error_name(lasting));
  }
  MutexLock lock(&mutex_);
  if (failure_.ok()) {
    failure_ =
        absl::InternalError(absl::StrCat("the device failed: ", message));
    has_failed_.store(true, std::memory_order_release);
  }
  return failure_;
}

cudaError_t CudaErrors::ask_for_error() {
  cudaError_t error = cudaSuccess;
  for (int i = 0; i < 2; ++i) {
    size_t free = 0;
    size_t total = 0;
    error = api_.mem_get_info(&free, &total);
    if (error == cudaSuccess) break;
    (void)api_.get_last_error();
  }
  return error;
}

absl::Status CudaErrors::first_failure() const {
  MutexLock lock(&mutex_);
  return failure_;
}

}  // namespace ferry
