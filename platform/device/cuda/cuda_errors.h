#pragma once

#include <atomic>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "platform/base/mutex.h"
#include "platform/device/cuda/cuda_api.h"

namespace ferry {

// Turns results of CUDA's calls into statuses, and remembers that a device
// failed.
//
//   works ──an error that CUDA does not recover from──► failed, for ever
//
// An error from which CUDA recovers is forgotten there too, so that no later
// call of anybody reports it.
//
// Threads: thread-safe.
class CudaErrors {
 public:
  // `api` must outlive it.
  explicit CudaErrors(CudaApi* api) : api_(*api) {}

  // OK for cudaSuccess. RESOURCE_EXHAUSTED: no memory; INVALID_ARGUMENT: what
  // no device could do; FAILED_PRECONDITION: what this system does not allow;
  // INTERNAL: the device failed. `call` is what was tried: "cudaMalloc".
  absl::Status check(cudaError_t result, absl::string_view call) {
    if (result == cudaSuccess) return absl::OkStatus();
    return explain(result, call);
  }

  // What the device failed with; OK while it works.
  absl::Status failure() const {
    if (!has_failed_.load(std::memory_order_acquire)) return absl::OkStatus();
    return first_failure();
  }

 private:
  absl::Status explain(cudaError_t result, absl::string_view call)
      EXCLUDES_LOCK(mutex_);
  absl::Status first_failure() const EXCLUDES_LOCK(mutex_);

  CudaApi& api_;
  std::atomic<bool> has_failed_{false};
  mutable Mutex mutex_;
  absl::Status failure_ GUARDED_BY(mutex_);
};

}  // namespace ferry
