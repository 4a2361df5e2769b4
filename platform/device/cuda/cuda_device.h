#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "platform/base/mutex.h"
#include "platform/device/cuda/cuda_api.h"
#include "platform/device/cuda/cuda_device_options.h"
#include "platform/device/cuda/cuda_errors.h"
#include "platform/device/cuda/cuda_host_memory.h"
#include "platform/device/cuda/cuda_torch.h"
#include "platform/device/cuda/current_device_api.h"
#include "platform/device/cuda/staged_copies.h"
#include "platform/device/device.h"

namespace ferry {

// A GPU.
//
// - Device arenas come from cudaMalloc, beside LibTorch's allocator, which
//   would scatter them. An allocation is tried once.
// - Leased streams are streams of their own, of the highest priority for
//   transfers; none waits for the default stream. LibTorch takes them as
//   current streams.
// - Host arenas: CudaHostMemory. Copies from and to host memory that is not
//   registered are staged (StagedCopies).
// - What the hardware finds out by itself (mark_access, discard, audit) costs
//   nothing here; a wait for an event that was never recorded does not go
//   unnoticed.
// - Threads that wait for it sleep, whether here or in LibTorch.
//
// Threads: thread-safe. Calls make the device CUDA's current one of the calling
// thread (CurrentDeviceApi).
class CudaDevice final : public Device {
 public:
  // What CUDA and its libraries take after the context was made: code that is
  // loaded with a kernel's first launch, workspaces of cuBLAS and plans of
  // cuDNN, and what LibTorch's allocator loses to the size of its segments.
  // tests/gpu/gpu_pipeline_test.cc measures it.
  static constexpr int64_t kLibraryBytes = int64_t{768} << 20;

  // FAILED_PRECONDITION says why the device cannot be used. `cuda` and `torch`
  // must outlive it, and `torch` be loaded, on a thread that uses the device,
  // before a stream is asked for.
  static absl::StatusOr<std::unique_ptr<CudaDevice>> create(
      const CudaDeviceOptions& options, CudaApi* cuda, CudaTorch* torch);

  absl::StatusOr<MemoryInfo> memory_info() const override;
  // Of cudaMalloc, which maps large pages.
  int64_t allocation_granularity() const override { return 2 << 20; }
  int64_t library_bytes() const override { return kLibraryBytes; }
  absl::StatusOr<DeviceArena> allocate(int64_t bytes,
                                       absl::string_view label) override;
  absl::StatusOr<HostArena> allocate_host(int64_t bytes,
                                          absl::string_view label) override;
  absl::StatusOr<HostArena> map_host_file(int fd, int64_t offset, int64_t bytes,
                                          absl::string_view label) override;
  void empty_cache() override;
  DeviceStats stats() const override;
  // CUDA tells of work that failed in whatever is called next.
  absl::Status status() override { return memory_info().status(); }

  Stream current_stream() const override;
  Stream exchange_current_stream(Stream stream) override;
  absl::StatusOr<StreamLease> acquire_stream(StreamKind kind,
                                             absl::string_view label) override;
  absl::Status synchronize(Stream stream) override;
  absl::Status synchronize() override;

  absl::StatusOr<Event> create_event(bool timed) override;
  absl::Status record(const Event& event, Stream stream) override;
  absl::Status wait(Stream stream, const Event& event) override;
  absl::StatusOr<bool> query(const Event& event) override;
  absl::Status synchronize(const Event& event) override;
  absl::StatusOr<std::optional<absl::Duration>> elapsed(
      const Event& start, const Event& end) override;

  absl::Status copy_async(Stream stream, const Copy& copy) override;
  absl::Status mark_access(Stream, AccessKind, const void*, int64_t) override {
    return absl::OkStatus();
  }
  absl::Status discard(Stream, void*, int64_t) override {
    return absl::OkStatus();
  }

  absl::Status audit(const void*, int64_t) const override {
    return absl::OkStatus();
  }
  // A kernel that reads there fails.

  void release_stream(Stream stream) override;
  void destroy_event(int64_t event) override;
  absl::Status free_device(void* data) override;
  absl::Status free_host(void* data) override;
  absl::Status begin_host_access(AccessKind kind, void* data,
                                 int64_t bytes) override;
  absl::Status end_host_access(AccessKind, void*, int64_t) override {
    return absl::OkStatus();
  }
  void keep_error(const absl::Status& status) override;

  // --- For libraries that give the device work by themselves

  // Makes the device the thread's current one.
  absl::Status use() const;
  // The stream to give work to, on a thread that uses the device.
  absl::StatusOr<cudaStream_t> handle(Stream stream) const;

 private:
  // What an Event's id points to.
  struct EventState;

  CudaDevice(const CudaDeviceOptions& options,
             std::unique_ptr<CurrentDeviceApi> own_api, CudaTorch* torch,
             CudaHostMemory::Abilities abilities, int transfer_priority);

  absl::StatusOr<EventState*> recorded(const Event& event) const;
  absl::StatusOr<HostArena> own_host(absl::StatusOr<void*> data, int64_t bytes);
  absl::Status copy_host(cudaStream_t stream, const Copy& copy);
  absl::Status copy_pieces(cudaStream_t stream, const Copy& copy,
                           int64_t first_bytes);
  absl::Status copy_bytes(cudaStream_t stream, const Copy& copy);
  void count(const Copy& copy, bool is_pageable, bool is_staged)
      EXCLUDES_LOCK(mutex_);

  // Constant after construction.
  const CudaDeviceOptions options_;
  CudaTorch& torch_;
  const int transfer_priority_;

  // Internally synchronized.
  const std::unique_ptr<CurrentDeviceApi> own_api_;
  CurrentDeviceApi& api_;
  mutable CudaErrors errors_;
  CudaHostMemory host_memory_;
  StagedCopies staged_copies_;

  mutable Mutex mutex_;
  // Bytes that arenas take, by their address.
  std::map<const void*, int64_t> arenas_ GUARDED_BY(mutex_);
  DeviceStats stats_ GUARDED_BY(mutex_);
  absl::Status kept_error_ GUARDED_BY(mutex_);
};

}  // namespace ferry
