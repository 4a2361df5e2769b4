#pragma once

#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "platform/device/cuda/cuda_api.h"
#include "platform/device/cuda/cuda_device.h"
#include "platform/device/cuda/cuda_device_options.h"
#include "platform/device/cuda/cuda_torch.h"
#include "platform/device/platform.h"

namespace ferry {

// NVIDIA's GPUs; this process uses one of them.
class CudaPlatform final : public Platform {
 public:
  // NOT_FOUND: there is no driver, or no GPU at all; so it is for every rank.
  // FAILED_PRECONDITION: there is one, and not so many, or something that it
  // needs is missing or too old. Both name what.
  static absl::StatusOr<std::unique_ptr<CudaPlatform>> create(
      const CudaDeviceOptions& options, std::unique_ptr<CudaApi> api,
      std::unique_ptr<CudaTorch> torch);

  std::string name() const override { return "cuda"; }
  std::string torch_device() const override;
  absl::StatusOr<MemoryInfo> memory_info() const override {
    return device_->memory_info();
  }
  bool supports_cpu_offload() const override { return true; }
  bool counts_activations() const override { return true; }
  std::string offload_unsupported_reason() const override { return ""; }
  CudaDevice* device() override { return device_.get(); }
  absl::Status synchronize() override { return device_->synchronize(); }
  void empty_cache() override { device_->empty_cache(); }

 private:
  CudaPlatform(int index, std::unique_ptr<CudaApi> api,
               std::unique_ptr<CudaTorch> torch,
               std::unique_ptr<CudaDevice> device)
      : index_(index),
        api_(std::move(api)),
        torch_(std::move(torch)),
        device_(std::move(device)) {}

  // In this order: each stands on those before it.
  const int index_;
  const std::unique_ptr<CudaApi> api_;
  const std::unique_ptr<CudaTorch> torch_;
  const std::unique_ptr<CudaDevice> device_;
};

}  // namespace ferry
