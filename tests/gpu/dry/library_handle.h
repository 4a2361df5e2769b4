#pragma once

#include <cuda_runtime_api.h>

namespace ferry::dry {

// A handle of cuBLAS or cuDNN: of the device that was current when it was made,
// and launching on one stream.
struct LibraryHandle {
  int device = 0;
  cudaStream_t stream = nullptr;
};

// The functions below are called as `call`; false: a rule was broken.
bool create_handle(const char* call, LibraryHandle** handle);
bool destroy_handle(const char* call, LibraryHandle* handle);
bool set_stream(const char* call, LibraryHandle* handle, cudaStream_t stream);
// Starts a kernel on the handle's stream. The handle's device must be current.
bool run_library(const char* call, LibraryHandle* handle);

}  // namespace ferry::dry
