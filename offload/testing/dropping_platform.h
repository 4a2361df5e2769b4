#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "platform/device/device.h"
#include "platform/device/platform.h"

namespace ferry {

// A device that leaves out one call of those that order or move bytes: the
// records, waits, copies and synchronizations that it is asked for. What a
// program does without one of them shows whether it was needed.
//
// Everything else is the other device's, which must outlive it.
class DroppingDevice final : public Device {
 public:
  explicit DroppingDevice(Device& device) : device_(device) {}

  // The `nth` call from the start is left out; 1 is the first.
  void drop(int64_t nth) { dropped_ = nth; }
  // Names of the calls so far, the one that was left out included.
  const std::vector<std::string>& calls() const { return calls_; }

  absl::StatusOr<MemoryInfo> memory_info() const override {
    return device_.memory_info();
  }
  int64_t allocation_granularity() const override {
    return device_.allocation_granularity();
  }
  absl::StatusOr<DeviceArena> allocate(int64_t bytes,
                                       absl::string_view label) override {
    return device_.allocate(bytes, label);
  }
  absl::StatusOr<HostArena> allocate_host(int64_t bytes,
                                          absl::string_view label) override {
    return device_.allocate_host(bytes, label);
  }
  absl::StatusOr<HostArena> map_host_file(int fd, int64_t offset, int64_t bytes,
                                          absl::string_view label) override {
    return device_.map_host_file(fd, offset, bytes, label);
  }
  void empty_cache() override { device_.empty_cache(); }
  DeviceStats stats() const override { return device_.stats(); }
  Stream current_stream() const override { return device_.current_stream(); }
  Stream exchange_current_stream(Stream stream) override {
    return device_.exchange_current_stream(stream);
  }
  absl::StatusOr<StreamLease> acquire_stream(StreamKind kind,
                                             absl::string_view label) override {
    return device_.acquire_stream(kind, label);
  }
  absl::Status synchronize(Stream stream) override {
    if (is_dropped("synchronize(stream)")) return absl::OkStatus();
    return device_.synchronize(stream);
  }
  absl::Status synchronize() override {
    if (is_dropped("synchronize()")) return absl::OkStatus();
    return device_.synchronize();
  }
  absl::StatusOr<Event> create_event(bool timed) override {
    return device_.create_event(timed);
  }
  absl::Status record(const Event& event, Stream stream) override {
    if (is_dropped("record")) return absl::OkStatus();
    return device_.record(event, stream);
  }
  absl::Status wait(Stream stream, const Event& event) override {
    if (is_dropped("wait")) return absl::OkStatus();
    return device_.wait(stream, event);
  }
  absl::StatusOr<bool> query(const Event& event) override {
    return device_.query(event);
  }
  absl::Status synchronize(const Event& event) override {
    if (is_dropped("synchronize(event)")) return absl::OkStatus();
    return device_.synchronize(event);
  }
  absl::StatusOr<absl::Duration> elapsed(const Event& start,
                                         const Event& end) override {
    return device_.elapsed(start, end);
  }
  absl::Status copy_async(Stream stream, const Copy& copy) override {
    if (is_dropped("copy")) return absl::OkStatus();
    return device_.copy_async(stream, copy);
  }
  absl::Status mark_access(Stream stream, AccessKind kind, const void* data,
                           int64_t bytes) override {
    return device_.mark_access(stream, kind, data, bytes);
  }
  absl::Status discard(Stream stream, void* data, int64_t bytes) override {
    return device_.discard(stream, data, bytes);
  }
  absl::Status audit(const void* data, int64_t bytes) const override {
    return device_.audit(data, bytes);
  }
  absl::StatusOr<void*> unbound_data(int64_t bytes) override {
    return device_.unbound_data(bytes);
  }

  void release_stream(Stream stream) override {
    device_.release_stream(stream);
  }
  void destroy_event(int64_t event) override { device_.destroy_event(event); }
  absl::Status free_device(void* data) override {
    return device_.free_device(data);
  }
  absl::Status free_host(void* data) override {
    return device_.free_host(data);
  }
  absl::Status begin_host_access(AccessKind kind, void* data,
                                 int64_t bytes) override {
    return device_.begin_host_access(kind, data, bytes);
  }
  absl::Status end_host_access(AccessKind kind, void* data,
                               int64_t bytes) override {
    return device_.end_host_access(kind, data, bytes);
  }
  void keep_error(const absl::Status& status) override {
    device_.keep_error(status);
  }

 private:
  bool is_dropped(const char* call) {
    calls_.emplace_back(call);
    return static_cast<int64_t>(calls_.size()) == dropped_;
  }

  Device& device_;
  int64_t dropped_ = 0;
  std::vector<std::string> calls_;
};

// A platform with a DroppingDevice.
class DroppingPlatform final : public Platform {
 public:
  // `platform` must outlive it.
  explicit DroppingPlatform(Platform& platform)
      : platform_(platform), device_(*platform.device()) {}

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

  DroppingDevice& dropping_device() { return device_; }

 private:
  Platform& platform_;
  DroppingDevice device_;
};

}  // namespace ferry
