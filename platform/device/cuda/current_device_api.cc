#include "platform/device/cuda/current_device_api.h"

#include <atomic>

namespace ferry {
namespace {

// Whose device is the thread's current one; 0: nobody has set it.
thread_local int64_t current_owner = 0;

int64_t next_owner() {
  static std::atomic<int64_t> last{0};
  return ++last;
}

}  // namespace

CurrentDeviceApi::CurrentDeviceApi(CudaApi* api, int device)
    : api_(*api), device_(device), owner_(next_owner()) {}

cudaError_t CurrentDeviceApi::use() {
  if (current_owner == owner_) return cudaSuccess;
  const cudaError_t error = api_.set_device(device_);
  if (error == cudaSuccess) current_owner = owner_;
  return error;
}

template <typename Call>
cudaError_t CurrentDeviceApi::on_device(Call call) {
  const cudaError_t error = use();
  return error == cudaSuccess ? call() : error;
}

cudaError_t CurrentDeviceApi::set_device(int device) {
  current_owner = 0;
  return api_.set_device(device);
}

cudaError_t CurrentDeviceApi::device_synchronize() {
  return on_device([&] { return api_.device_synchronize(); });
}

cudaError_t CurrentDeviceApi::mem_get_info(size_t* free, size_t* total) {
  return on_device([&] { return api_.mem_get_info(free, total); });
}

cudaError_t CurrentDeviceApi::malloc(void** data, size_t bytes) {
  return on_device([&] { return api_.malloc(data, bytes); });
}

cudaError_t CurrentDeviceApi::free(void* data) {
  return on_device([&] { return api_.free(data); });
}

cudaError_t CurrentDeviceApi::host_alloc(void** data, size_t bytes,
                                         unsigned flags) {
  return on_device([&] { return api_.host_alloc(data, bytes, flags); });
}

cudaError_t CurrentDeviceApi::free_host(void* data) {
  return on_device([&] { return api_.free_host(data); });
}

cudaError_t CurrentDeviceApi::host_register(void* data, size_t bytes,
                                            unsigned flags) {
  return on_device([&] { return api_.host_register(data, bytes, flags); });
}

cudaError_t CurrentDeviceApi::host_unregister(void* data) {
  return on_device([&] { return api_.host_unregister(data); });
}

cudaError_t CurrentDeviceApi::device_get_stream_priority_range(int* least,
                                                               int* greatest) {
  return on_device(
      [&] { return api_.device_get_stream_priority_range(least, greatest); });
}

cudaError_t CurrentDeviceApi::stream_create_with_priority(cudaStream_t* stream,
                                                          unsigned flags,
                                                          int priority) {
  return on_device([&] {
    return api_.stream_create_with_priority(stream, flags, priority);
  });
}

cudaError_t CurrentDeviceApi::stream_destroy(cudaStream_t stream) {
  return on_device([&] { return api_.stream_destroy(stream); });
}

cudaError_t CurrentDeviceApi::stream_synchronize(cudaStream_t stream) {
  return on_device([&] { return api_.stream_synchronize(stream); });
}

cudaError_t CurrentDeviceApi::stream_wait_event(cudaStream_t stream,
                                                cudaEvent_t event) {
  return on_device([&] { return api_.stream_wait_event(stream, event); });
}

cudaError_t CurrentDeviceApi::memcpy_async(void* destination,
                                           const void* source, size_t bytes,
                                           cudaMemcpyKind kind,
                                           cudaStream_t stream) {
  return on_device([&] {
    return api_.memcpy_async(destination, source, bytes, kind, stream);
  });
}

cudaError_t CurrentDeviceApi::launch_host_func(cudaStream_t stream,
                                               cudaHostFn_t function,
                                               void* data) {
  return on_device(
      [&] { return api_.launch_host_func(stream, function, data); });
}

cudaError_t CurrentDeviceApi::event_create_with_flags(cudaEvent_t* event,
                                                      unsigned flags) {
  return on_device([&] { return api_.event_create_with_flags(event, flags); });
}

cudaError_t CurrentDeviceApi::event_destroy(cudaEvent_t event) {
  return on_device([&] { return api_.event_destroy(event); });
}

cudaError_t CurrentDeviceApi::event_record(cudaEvent_t event,
                                           cudaStream_t stream) {
  return on_device([&] { return api_.event_record(event, stream); });
}

cudaError_t CurrentDeviceApi::event_query(cudaEvent_t event) {
  return on_device([&] { return api_.event_query(event); });
}

cudaError_t CurrentDeviceApi::event_synchronize(cudaEvent_t event) {
  return on_device([&] { return api_.event_synchronize(event); });
}

cudaError_t CurrentDeviceApi::event_elapsed_time(float* milliseconds,
                                                 cudaEvent_t start,
                                                 cudaEvent_t end) {
  return on_device(
      [&] { return api_.event_elapsed_time(milliseconds, start, end); });
}

}  // namespace ferry
