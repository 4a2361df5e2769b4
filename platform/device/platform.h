#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "platform/device/device.h"
#include "platform/device/memory_info.h"

namespace ferry {

// The kind of device that a rank computes on.
//
// Made by get_platform() once in a worker; everything that depends on a kind
// of device goes through it, and through the Device that it may have. What a
// platform cannot do, it says in a capability query, never in a failing call:
// callers ask before they plan.
//
// Ownership: the worker owns it; it outlives the pipeline and the backend.
// Threads: thread-safe.
// Errors: as absl::Status; a platform never aborts the process.
class Platform {
 public:
  virtual ~Platform() = default;

  // The kind, as get_platform() takes it: "cpu".
  virtual std::string name() const = 0;
  // The device as LibTorch writes it: "cpu", "cuda:0".
  virtual std::string torch_device() const = 0;

  // Memory that tensors on the device come from.
  virtual absl::StatusOr<MemoryInfo> memory_info() const = 0;

  // Whether weights can live on the host and be copied to the device while it
  // computes.
  virtual bool supports_cpu_offload() const = 0;
  // Why not, as half a sentence; empty when supports_cpu_offload().
  virtual std::string offload_unsupported_reason() const = 0;
  // Streams, events, arenas and copies. Null where there is nothing to offload
  // from, and so !supports_cpu_offload(). Belongs to the platform.
  virtual Device* device() = 0;

  // Whether memory_info() counts what kernels compute with, not only arenas.
  virtual bool counts_activations() const { return false; }

  // Blocks until all work that was given to the device has ended. Returns the
  // error of work that failed.
  [[nodiscard]] virtual absl::Status synchronize() = 0;
  // Gives cached, unused device memory back to the system.
  virtual void empty_cache() = 0;
};

}  // namespace ferry
