#pragma once

#include <cstddef>
#include <cstdint>

#include "platform/device/cuda/cuda_api.h"

namespace ferry {

// The calls of one device: each of them makes the device its thread's current
// one first, unless this has done so on that thread before and no other device
// of Ferry's has since. (LibTorch and NCCL set other devices for the time of a
// call of theirs, and then the one before.) Calls that need no device go on as
// they are.
//
// So no thread works with, or makes a context on, a device that is not its
// own: not the step thread or a transport thread, not a watchdog, nor whoever
// drops a handle last. set_device() itself is not for those who have this.
//
// Threads: thread-safe. Errors: what CUDA says; when the device cannot be made
// the current one, that is every call's result, and nothing else is tried.
class CurrentDeviceApi final : public CudaApi {
 public:
  // `api` must outlive it.
  CurrentDeviceApi(CudaApi* api, int device);

  // For work that somebody else gives to the thread's current device.
  [[nodiscard]] cudaError_t use();

  cudaError_t driver_get_version(int* version) override {
    return api_.driver_get_version(version);
  }
  cudaError_t runtime_get_version(int* version) override {
    return api_.runtime_get_version(version);
  }
  cudaError_t get_device_count(int* count) override {
    return api_.get_device_count(count);
  }
  cudaError_t device_get_attribute(int* value, cudaDeviceAttr attribute,
                                   int device) override {
    return api_.device_get_attribute(value, attribute, device);
  }
  cudaError_t device_get_pci_bus_id(char* id, int length, int device) override {
    return api_.device_get_pci_bus_id(id, length, device);
  }
  cudaError_t init_device(int device, unsigned device_flags,
                          unsigned flags) override {
    return api_.init_device(device, device_flags, flags);
  }
  cudaError_t set_device(int device) override;
  cudaError_t device_synchronize() override;
  cudaError_t mem_get_info(size_t* free, size_t* total) override;
  cudaError_t malloc(void** data, size_t bytes) override;
  cudaError_t free(void* data) override;
  cudaError_t host_alloc(void** data, size_t bytes, unsigned flags) override;
  cudaError_t free_host(void* data) override;
  cudaError_t host_register(void* data, size_t bytes, unsigned flags) override;
  cudaError_t host_unregister(void* data) override;
  cudaError_t device_get_stream_priority_range(int* least,
                                               int* greatest) override;
  cudaError_t stream_create_with_priority(cudaStream_t* stream, unsigned flags,
                                          int priority) override;
  cudaError_t stream_destroy(cudaStream_t stream) override;
  cudaError_t stream_synchronize(cudaStream_t stream) override;
  cudaError_t stream_wait_event(cudaStream_t stream,
                                cudaEvent_t event) override;
  cudaError_t memcpy_async(void* destination, const void* source, size_t bytes,
                           cudaMemcpyKind kind, cudaStream_t stream) override;
  cudaError_t launch_host_func(cudaStream_t stream, cudaHostFn_t function,
                               void* data) override;
  cudaError_t event_create_with_flags(cudaEvent_t* event,
                                      unsigned flags) override;
  cudaError_t event_destroy(cudaEvent_t event) override;
  cudaError_t event_record(cudaEvent_t event, cudaStream_t stream) override;
  cudaError_t event_query(cudaEvent_t event) override;
  cudaError_t event_synchronize(cudaEvent_t event) override;
  cudaError_t event_elapsed_time(float* milliseconds, cudaEvent_t start,
                                 cudaEvent_t end) override;
  cudaError_t get_last_error() override { return api_.get_last_error(); }
  cudaError_t peek_at_last_error() override {
    return api_.peek_at_last_error();
  }
  const char* get_error_name(cudaError_t error) override {
    return api_.get_error_name(error);
  }
  const char* get_error_string(cudaError_t error) override {
    return api_.get_error_string(error);
  }

 private:
  template <typename Call>
  cudaError_t on_device(Call call);

  CudaApi& api_;
  const int device_;
  // Names this among all that there have ever been.
  const int64_t owner_;
};

}  // namespace ferry
