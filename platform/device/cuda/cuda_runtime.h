#pragma once

#include <cstddef>

#include "platform/device/cuda/cuda_api.h"

namespace ferry {

// CUDA's runtime library. Without a driver its calls fail with
// cudaErrorInsufficientDriver or cudaErrorNoDevice, and nothing else happens.
class CudaRuntime final : public CudaApi {
 public:
  cudaError_t driver_get_version(int* version) override;
  cudaError_t runtime_get_version(int* version) override;
  cudaError_t get_device_count(int* count) override;
  cudaError_t device_get_attribute(int* value, cudaDeviceAttr attribute,
                                   int device) override;
  cudaError_t device_get_pci_bus_id(char* id, int length, int device) override;
  cudaError_t init_device(int device, unsigned device_flags,
                          unsigned flags) override;
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

  cudaError_t get_last_error() override;
  cudaError_t peek_at_last_error() override;
  const char* get_error_name(cudaError_t error) override;
  const char* get_error_string(cudaError_t error) override;
};

}  // namespace ferry
