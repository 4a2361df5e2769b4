#include "tests/gpu/dry/library_handle.h"

#include <string>

#include "tests/gpu/dry/machine.h"

namespace ferry::dry {
namespace {

bool is_of_current_device(const char* call, const LibraryHandle& handle) {
  const int current = this_thread().device;
  if (handle.device == current) return true;
  (void)refuse("handle_on_other_device", call,
               "the handle is of device " + std::to_string(handle.device) +
                   ", the current one is " + std::to_string(current),
               cudaErrorInvalidResourceHandle);
  return false;
}

}  // namespace

bool create_handle(const char* name, LibraryHandle** handle) {
  return call(name, Needs::kContext, [&] {
           *handle = new LibraryHandle{this_thread().device, nullptr};
           return cudaSuccess;
         }) == cudaSuccess;
}

bool destroy_handle(const char* name, LibraryHandle* handle) {
  return call(name, Needs::kNothing, [&] {
           delete handle;
           return cudaSuccess;
         }) == cudaSuccess;
}

bool set_stream(const char* name, LibraryHandle* handle, cudaStream_t stream) {
  const int device = machine().streams.device_of(stream, handle->device);
  if (device != handle->device) {
    (void)refuse(
        device < 0 ? "stream_unknown" : "handle_stream_on_other_device", name,
        "a handle of device " + std::to_string(handle->device) +
            ", a stream of device " + std::to_string(device),
        cudaErrorInvalidResourceHandle);
    return false;
  }
  handle->stream = stream;
  return true;
}

bool run_library(const char* name, LibraryHandle* handle) {
  return call(name, Needs::kContext, [&] {
           if (!is_of_current_device(name, *handle)) {
             return cudaErrorInvalidResourceHandle;
           }
           return launch(name, handle->stream);
         }) == cudaSuccess;
}

}  // namespace ferry::dry
