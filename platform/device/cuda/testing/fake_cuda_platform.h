#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "platform/device/cuda/cuda_device.h"
#include "platform/device/cuda/cuda_device_options.h"
#include "platform/device/cuda/testing/fake_cuda_api.h"
#include "platform/device/cuda/testing/fake_cuda_torch.h"
#include "platform/device/device.h"
#include "platform/device/memory_info.h"
#include "platform/device/platform.h"

namespace ferry {

// A CUDA device over FakeCudaApi, for those who use a Platform: what computes
// are CPU tensors, since device memory is the host's.
class FakeCudaPlatform final : public Platform {
 public:
  // The device `index` of `devices`.
  explicit FakeCudaPlatform(int index = 0, int devices = 1)
      : device_(create(index, devices)) {}

  std::string name() const override { return "cuda"; }
  std::string torch_device() const override { return "cpu"; }
  absl::StatusOr<MemoryInfo> memory_info() const override {
    return device_->memory_info();
  }
  bool supports_cpu_offload() const override { return true; }
  std::string offload_unsupported_reason() const override { return ""; }
  Device* device() override { return device_.get(); }
  absl::Status synchronize() override { return device_->synchronize(); }
  void empty_cache() override {}

  FakeCudaApi& api() { return api_; }

 private:
  std::unique_ptr<CudaDevice> create(int index, int devices) {
    api_.machine().devices = devices;
    CudaDeviceOptions options;
    options.index = index;
    return *CudaDevice::create(options, &api_, &torch_);
  }

  FakeCudaApi api_;
  FakeCudaTorch torch_;
  const std::unique_ptr<CudaDevice> device_;
};

}  // namespace ferry
