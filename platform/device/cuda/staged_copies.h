#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "platform/base/mutex.h"
#include "platform/device/cuda/cuda_api.h"
#include "platform/device/cuda/cuda_errors.h"
#include "platform/device/device.h"

namespace ferry {

// Copies between the device and host memory that CUDA has not registered,
// through two page-locked buffers. While one is copied between host memory and
// buffer, on a stream of its own and by CUDA's thread for host functions, the
// other one is copied between buffer and device, on the caller's stream:
//
//   to the device    staging stream  |fill 0|fill 1|      |fill 0|
//                    caller's stream         |send 0|send 1|      |send 0|
//
// Events keep each step after those that it needs, so that to the caller it is
// one asynchronous copy. cudaMemcpyAsync never sees pageable memory: it would
// block, at half the rate, or return before the bytes are read.
//
// Makes its buffers with the first copy, and keeps them.
//
// Threads: thread-safe; copies are enqueued one after the other.
// Errors: RESOURCE_EXHAUSTED, no page-locked memory for the buffers; else those
// of CudaErrors. After an error the host memory is not used any more, and the
// destination's content is undefined.
class StagedCopies {
 public:
  // `api` and `errors` must outlive it.
  StagedCopies(CudaApi* api, CudaErrors* errors, int64_t buffer_bytes);
  // Waits for what runs.
  ~StagedCopies();
  StagedCopies(const StagedCopies&) = delete;
  StagedCopies& operator=(const StagedCopies&) = delete;

  // `blocks`: returns when the host memory is not needed any more (it was
  // read), or has its bytes. REQUIRES: one side is on the host.
  absl::Status copy(cudaStream_t stream, const Copy& copy, bool blocks)
      EXCLUDES_LOCK(mutex_);

 private:
  struct Buffer {
    void* data = nullptr;
    cudaEvent_t full = nullptr;
    cudaEvent_t empty = nullptr;
    // Whether `empty` says something.
    bool was_used = false;
  };
  // A copy between a buffer and host memory.
  struct HostCopy {
    void* destination = nullptr;
    const void* source = nullptr;
    size_t bytes = 0;
    std::atomic<bool> is_done{true};
  };

  absl::Status make_buffers() REQUIRES_LOCK(mutex_);
  void destroy() REQUIRES_LOCK(mutex_);
  void drain(cudaStream_t stream) REQUIRES_LOCK(mutex_);
  absl::Status enqueue(cudaStream_t stream, const Copy& copy, Buffer** last)
      REQUIRES_LOCK(mutex_);
  absl::Status send(cudaStream_t stream, const Copy& piece, Buffer* buffer)
      REQUIRES_LOCK(mutex_);
  absl::Status receive(cudaStream_t stream, const Copy& piece, Buffer* buffer)
      REQUIRES_LOCK(mutex_);
  absl::Status copy_on_host(void* destination, const void* source,
                            int64_t bytes) REQUIRES_LOCK(mutex_);
  absl::Status record(cudaEvent_t event, cudaStream_t stream);
  absl::Status wait(cudaStream_t stream, cudaEvent_t event);
  static void CUDART_CB run_host_copy(void* host_copy);

  // Constant after construction.
  CudaApi& api_;
  CudaErrors& errors_;
  const int64_t buffer_bytes_;

  Mutex mutex_;
  cudaStream_t staging_stream_ GUARDED_BY(mutex_) = nullptr;
  // What the caller's stream had been given before.
  cudaEvent_t start_ GUARDED_BY(mutex_) = nullptr;
  std::array<Buffer, 2> buffers_ GUARDED_BY(mutex_);
  size_t next_buffer_ GUARDED_BY(mutex_) = 0;
  bool is_made_ GUARDED_BY(mutex_) = false;
  // Used again when they are done.
  std::vector<std::unique_ptr<HostCopy>> host_copies_ GUARDED_BY(mutex_);
};

}  // namespace ferry
