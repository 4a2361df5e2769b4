#pragma once

#include <cstdint>
#include <filesystem>

namespace ferry {

// Which CUDA device, and how its host memory is made.
struct CudaDeviceOptions {
  // As CUDA numbers those that CUDA_VISIBLE_DEVICES shows.
  int index = 0;
  // Whether host arenas are page-locked, so that the device reads them by
  // itself. If not, copies go through staging buffers.
  bool pin_host_memory = true;
  // Host memory is registered in pieces of this, a multiple of the page size:
  // single calls for very much memory fail.
  int64_t register_bytes = int64_t{4} << 30;
  // Of each of the two staging buffers.
  int64_t staging_bytes = int64_t{32} << 20;
  // That populate new host memory.
  int populate_threads = 4;
  std::filesystem::path sysfs = "/sys";
};

}  // namespace ferry
