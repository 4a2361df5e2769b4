#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "platform/device/cuda/cuda_api.h"
#include "platform/device/cuda/cuda_torch.h"

namespace ferry {

// LibTorch's side of a CUDA device, without LibTorch. Its default stream is
// CUDA's. For one thread.
class FakeCudaTorch final : public CudaTorch {
 public:
  // As LibTorch does, it asks CUDA for priorities when it is loaded, and gives
  // cached memory back, on whatever device is the thread's current one.
  absl::Status load(int device) override {
    loaded_device = device;
    int least = 0;
    int greatest = 0;
    if (api != nullptr) {
      (void)api->device_get_stream_priority_range(&least, &greatest);
    }
    return load_status;
  }
  int64_t current_stream(int /*device*/) const override { return current; }
  int64_t exchange_current_stream(int /*device*/, int64_t stream) override {
    const int64_t previous = current;
    current = stream;
    return previous;
  }
  cudaStream_t stream_handle(int /*device*/, int64_t stream) const override {
    return reinterpret_cast<cudaStream_t>(stream);
  }
  void empty_cache() override {
    ++emptied;
    if (api != nullptr) (void)api->device_synchronize();
  }

  // The CUDA that it uses; null: none.
  CudaApi* api = nullptr;
  absl::Status load_status;
  int loaded_device = -1;
  int64_t current = 0;
  int emptied = 0;
};

}  // namespace ferry
