#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "platform/device/device.h"
#include "platform/device/memory_info.h"
#include "platform/device/platform.h"
#include "platform/device/testing/mutating_device.h"

namespace ferry {

// A platform whose device is a MutatingDevice over that of another platform,
// which must outlive it.
class MutatingPlatform final : public Platform {
 public:
  // As MutatingDevice's.
  MutatingPlatform(Platform& platform, std::set<Duty> duties, int64_t nth)
      : platform_(platform),
        device_(*platform.device(), std::move(duties), nth) {}

  std::string name() const override { return platform_.name(); }
  std::string torch_device() const override { return platform_.torch_device(); }
  absl::StatusOr<MemoryInfo> memory_info() const override {
    return platform_.memory_info();
  }
  bool supports_cpu_offload() const override { return true; }
  std::string offload_unsupported_reason() const override { return ""; }
  Device* device() override { return &device_; }
  absl::Status synchronize() override { return platform_.synchronize(); }
  void empty_cache() override { platform_.empty_cache(); }

  const MutatingDevice& mutating_device() const { return device_; }

 private:
  Platform& platform_;
  MutatingDevice device_;
};

}  // namespace ferry
