#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

namespace ferry {

// The calls of CUDA's runtime that a CudaDevice makes, one method for each, as
// CUDA documents them: a thin seam that tests fake. CudaRuntime is the real
// one.
//
// Threads: thread-safe. CUDA's current device and last error belong to the
// calling thread. A thread's current device is 0 until it sets another one, and
// a call that works with a device makes a context on the current one, where
// there is none: some hundred megabytes. So only CurrentDeviceApi is given to
// those who work with a device.
class CudaApi {
 public:
  virtual ~CudaApi() = default;

  // --- Devices

  // Versions as CUDA writes them: 13020 for 13.2. A driver of 0 is none.
  [[nodiscard]] virtual cudaError_t driver_get_version(int* version) = 0;
  [[nodiscard]] virtual cudaError_t runtime_get_version(int* version) = 0;
  [[nodiscard]] virtual cudaError_t get_device_count(int* count) = 0;
  [[nodiscard]] virtual cudaError_t device_get_attribute(
      int* value, cudaDeviceAttr attribute, int device) = 0;
  // "0000:65:00.0".
  [[nodiscard]] virtual cudaError_t device_get_pci_bus_id(char* id, int length,
                                                          int device) = 0;
  // Makes the device's context with `device_flags`, where there is none.
  [[nodiscard]] virtual cudaError_t init_device(int device,
                                                unsigned device_flags,
                                                unsigned flags) = 0;
  [[nodiscard]] virtual cudaError_t set_device(int device) = 0;
  [[nodiscard]] virtual cudaError_t device_synchronize() = 0;

  // --- Memory

  [[nodiscard]] virtual cudaError_t mem_get_info(size_t* free,
                                                 size_t* total) = 0;
  [[nodiscard]] virtual cudaError_t malloc(void** data, size_t bytes) = 0;
  [[nodiscard]] virtual cudaError_t free(void* data) = 0;
  [[nodiscard]] virtual cudaError_t host_alloc(void** data, size_t bytes,
                                               unsigned flags) = 0;
  [[nodiscard]] virtual cudaError_t free_host(void* data) = 0;
  [[nodiscard]] virtual cudaError_t host_register(void* data, size_t bytes,
                                                  unsigned flags) = 0;
  [[nodiscard]] virtual cudaError_t host_unregister(void* data) = 0;

  // --- Streams and their work

  [[nodiscard]] virtual cudaError_t device_get_stream_priority_range(
      int* least, int* greatest) = 0;
  [[nodiscard]] virtual cudaError_t stream_create_with_priority(
      cudaStream_t* stream, unsigned flags, int priority) = 0;
  [[nodiscard]] virtual cudaError_t stream_destroy(cudaStream_t stream) = 0;
  [[nodiscard]] virtual cudaError_t stream_synchronize(cudaStream_t stream) = 0;
  [[nodiscard]] virtual cudaError_t stream_wait_event(cudaStream_t stream,
                                                      cudaEvent_t event) = 0;
  [[nodiscard]] virtual cudaError_t memcpy_async(void* destination,
                                                 const void* source,
                                                 size_t bytes,
                                                 cudaMemcpyKind kind,
                                                 cudaStream_t stream) = 0;
  // `function` must call nothing of CUDA.
  [[nodiscard]] virtual cudaError_t launch_host_func(cudaStream_t stream,
                                                     cudaHostFn_t function,
                                                     void* data) = 0;

  // --- Events

  [[nodiscard]] virtual cudaError_t event_create_with_flags(cudaEvent_t* event,
                                                            unsigned flags) = 0;
  [[nodiscard]] virtual cudaError_t event_destroy(cudaEvent_t event) = 0;
  [[nodiscard]] virtual cudaError_t event_record(cudaEvent_t event,
                                                 cudaStream_t stream) = 0;
  [[nodiscard]] virtual cudaError_t event_query(cudaEvent_t event) = 0;
  [[nodiscard]] virtual cudaError_t event_synchronize(cudaEvent_t event) = 0;
  [[nodiscard]] virtual cudaError_t event_elapsed_time(float* milliseconds,
                                                       cudaEvent_t start,
                                                       cudaEvent_t end) = 0;

  // --- Errors

  // The thread's last error; forgets it, unless it is a sticky one.
  [[nodiscard]] virtual cudaError_t get_last_error() = 0;
  [[nodiscard]] virtual cudaError_t peek_at_last_error() = 0;
  // "cudaErrorMemoryAllocation", "out of memory"; literals.
  [[nodiscard]] virtual const char* get_error_name(cudaError_t error) = 0;
  [[nodiscard]] virtual const char* get_error_string(cudaError_t error) = 0;
};

}  // namespace ferry
