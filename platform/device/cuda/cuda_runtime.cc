#include "platform/device/cuda/cuda_runtime.h"

namespace ferry {

cudaError_t CudaRuntime::driver_get_version(int* version) {
  return ::cudaDriverGetVersion(version);
}

cudaError_t CudaRuntime::runtime_get_version(int* version) {
  return ::cudaRuntimeGetVersion(version);
}

cudaError_t CudaRuntime::get_device_count(int* count) {
  return ::cudaGetDeviceCount(count);
}

cudaError_t CudaRuntime::device_get_attribute(int* value,
                                              cudaDeviceAttr attribute,
                                              int device) {
  return ::cudaDeviceGetAttribute(value, attribute, device);
}

cudaError_t CudaRuntime::device_get_pci_bus_id(char* id, int length,
                                               int device) {
  return ::cudaDeviceGetPCIBusId(id, length, device);
}

cudaError_t CudaRuntime::init_device(int device, unsigned device_flags,
                                     unsigned flags) {
  return ::cudaInitDevice(device, device_flags, flags);
}

cudaError_t CudaRuntime::set_device(int device) {
  return ::cudaSetDevice(device);
}

cudaError_t CudaRuntime::device_synchronize() {
  return ::cudaDeviceSynchronize();
}

cudaError_t CudaRuntime::mem_get_info(size_t* free, size_t* total) {
  return ::cudaMemGetInfo(free, total);
}

cudaError_t CudaRuntime::malloc(void** data, size_t bytes) {
  return ::cudaMalloc(data, bytes);
}

cudaError_t CudaRuntime::free(void* data) { return ::cudaFree(data); }

cudaError_t CudaRuntime::host_alloc(void** data, size_t bytes, unsigned flags) {
  return ::cudaHostAlloc(data, bytes, flags);
}

cudaError_t CudaRuntime::free_host(void* data) { return ::cudaFreeHost(data); }

cudaError_t CudaRuntime::host_register(void* data, size_t bytes,
                                       unsigned flags) {
  return ::cudaHostRegister(data, bytes, flags);
}

cudaError_t CudaRuntime::host_unregister(void* data) {
  return ::cudaHostUnregister(data);
}

cudaError_t CudaRuntime::device_get_stream_priority_range(int* least,
                                                          int* greatest) {
  return ::cudaDeviceGetStreamPriorityRange(least, greatest);
}

cudaError_t CudaRuntime::stream_create_with_priority(cudaStream_t* stream,
                                                     unsigned flags,
                                                     int priority) {
  return ::cudaStreamCreateWithPriority(stream, flags, priority);
}

cudaError_t CudaRuntime::stream_destroy(cudaStream_t stream) {
  return ::cudaStreamDestroy(stream);
}

cudaError_t CudaRuntime::stream_synchronize(cudaStream_t stream) {
  return ::cudaStreamSynchronize(stream);
}

cudaError_t CudaRuntime::stream_wait_event(cudaStream_t stream,
                                           cudaEvent_t event) {
  return ::cudaStreamWaitEvent(stream, event, 0);
}

cudaError_t CudaRuntime::memcpy_async(void* destination, const void* source,
                                      size_t bytes, cudaMemcpyKind kind,
                                      cudaStream_t stream) {
  return ::cudaMemcpyAsync(destination, source, bytes, kind, stream);
}

cudaError_t CudaRuntime::launch_host_func(cudaStream_t stream,
                                          cudaHostFn_t function, void* data) {
  return ::cudaLaunchHostFunc(stream, function, data);
}

cudaError_t CudaRuntime::event_create_with_flags(cudaEvent_t* event,
                                                 unsigned flags) {
  return ::cudaEventCreateWithFlags(event, flags);
}

cudaError_t CudaRuntime::event_destroy(cudaEvent_t event) {
  return ::cudaEventDestroy(event);
}

cudaError_t CudaRuntime::event_record(cudaEvent_t event, cudaStream_t stream) {
  return ::cudaEventRecord(event, stream);
}

cudaError_t CudaRuntime::event_query(cudaEvent_t event) {
  return ::cudaEventQuery(event);
}

cudaError_t CudaRuntime::event_synchronize(cudaEvent_t event) {
  return ::cudaEventSynchronize(event);
}

cudaError_t CudaRuntime::event_elapsed_time(float* milliseconds,
                                            cudaEvent_t start,
                                            cudaEvent_t end) {
  return ::cudaEventElapsedTime(milliseconds, start, end);
}

cudaError_t CudaRuntime::get_last_error() { return ::cudaGetLastError(); }

cudaError_t CudaRuntime::peek_at_last_error() {
  return ::cudaPeekAtLastError();
}

const char* CudaRuntime::get_error_name(cudaError_t error) {
  return ::cudaGetErrorName(error);
}

const char* CudaRuntime::get_error_string(cudaError_t error) {
  return ::cudaGetErrorString(error);
}

}  // namespace ferry
