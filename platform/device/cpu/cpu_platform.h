#pragma once

#include <filesystem>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "platform/device/device.h"
#include "platform/device/memory_info.h"
#include "platform/device/platform.h"

namespace ferry {

// The host's processor: real and synchronous. Host and device memory are one,
// so there is nothing to offload to.
//
// Memory is the machine's, or the control group's where that allows less.
class CpuPlatform : public Platform {
 public:
  // Where the kernel tells about memory.
  struct Files {
    std::filesystem::path meminfo = "/proc/meminfo";
    // Holds memory.max and memory.current; both may be missing.
    std::filesystem::path cgroup = "/sys/fs/cgroup";
  };

  CpuPlatform() = default;
  explicit CpuPlatform(Files files) : files_(std::move(files)) {}

  std::string name() const override { return "cpu"; }
  std::string torch_device() const override { return "cpu"; }
  absl::StatusOr<MemoryInfo> memory_info() const override;
  bool supports_cpu_offload() const override { return false; }
  std::string offload_unsupported_reason() const override;
  Device* device() override { return nullptr; }
  // Work on the CPU has ended when the call that started it returns.
  absl::Status synchronize() override { return absl::OkStatus(); }
  // LibTorch's CPU allocator keeps nothing back.
  void empty_cache() override {}

 private:
  // Constant after construction.
  Files files_;
};

}  // namespace ferry
