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
// Which errors those are no list tells: what a call returns may come from work
// that was given before. But from then on every call returns an error. So two
// more calls, which change nothing, are asked after each error; if one of them
// succeeds, the device works. Such an error is forgotten in CUDA too, so that
// no later call of anybody reports it.
//
// Threads: thread-safe.
class CudaErrors {
 public:
  // `api` is the device's own, and must outlive it.
  explicit CudaErrors(CudaApi* api) : api_(*api) {}

  // OK for cudaSuccess. RESOURCE_EXHAUSTED: no memory; INVALID_ARGUMENT: what
  // no device could do; INTERNAL: the device failed; FAILED_PRECONDITION: every
  // other error. `call` is what was tried: "cudaMalloc".
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
  // The error that every call returns from now on; success if none does.
  cudaError_t ask_for_error();
  absl::Status first_failure() const EXCLUDES_LOCK(mutex_);

  CudaApi& api_;
  std::atomic<bool> has_failed_{false};
  mutable Mutex mutex_;
  absl::Status failure_ GUARDED_BY(mutex_);
};

}  // namespace ferry
