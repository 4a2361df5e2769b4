#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "platform/base/mutex.h"
#include "platform/device/device.h"

namespace ferry {

// What a program asks of a device so that it is right, not to get work done.
enum class Duty { kWait, kRecord, kSynchronize, kCopy, kAudit };

// A device that lets one duty of a program go: the call says OK and does
// nothing. A program is proven when each such mutant of it is found out, by the
// checker of the simulated device below or by other bytes. A mutant that
// survives is a call that the program does not need. Timed events serve to
// measure: to record one is no duty.
//
// Useful for: every program that takes a Device&. Handles are those of the
// device below. Threads: thread-safe.
class MutatingDevice final : public Device {
 public:
  // Lets the `nth` call of `duties` go, counted from 1; 0 is none.
  // `device` must outlive it.
  MutatingDevice(Device& device, std::set<Duty> duties, int64_t nth)
      : device_(device), duties_(std::move(duties)), nth_(nth) {}

  // Calls of the duties so far, in order: how many mutants there are.
  std::vector<Duty> calls() const EXCLUDES_LOCK(mutex_) {
    MutexLock lock(&mutex_);
    return calls_;
  }

  absl::Status record(const Event& event, Stream stream) override {
    return !is_timed(event) && drops(Duty::kRecord)
               ? absl::OkStatus()
               : device_.record(event, stream);
  }
  absl::Status wait(Stream stream, const Event& event) override {
    return drops(Duty::kWait) ? absl::OkStatus() : device_.wait(stream, event);
  }
  absl::Status synchronize(Stream stream) override {
    return drops(Duty::kSynchronize) ? absl::OkStatus()
                                     : device_.synchronize(stream);
  }
  absl::Status synchronize() override {
    return drops(Duty::kSynchronize) ? absl::OkStatus() : device_.synchronize();
  }
  absl::Status synchronize(const Event& event) override {
    return drops(Duty::kSynchronize) ? absl::OkStatus()
                                     : device_.synchronize(event);
  }
  absl::Status copy_async(Stream stream, const Copy& copy) override {
    return drops(Duty::kCopy) ? absl::OkStatus()
                              : device_.copy_async(stream, copy);
  }
  absl::Status audit(const void* data, int64_t bytes) const override {
    return drops(Duty::kAudit) ? absl::OkStatus() : device_.audit(data, bytes);
  }

  absl::StatusOr<MemoryInfo> memory_info() const override {
    return device_.memory_info();
  }
  int64_t allocation_granularity() const override {
    return device_.allocation_granularity();
  }
  int64_t library_bytes() const override { return device_.library_bytes(); }
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
  absl::Status status() override { return device_.status(); }
  Stream current_stream() const override { return device_.current_stream(); }
  Stream exchange_current_stream(Stream stream) override {
    return device_.exchange_current_stream(stream);
  }
  absl::StatusOr<StreamLease> acquire_stream(StreamKind kind,
                                             absl::string_view label) override {
    return device_.acquire_stream(kind, label);
  }
  absl::StatusOr<Event> create_event(bool timed) override {
    absl::StatusOr<Event> event = device_.create_event(timed);
    if (!event.ok()) return event;
    MutexLock lock(&mutex_);
    if (timed) {
      timed_.insert(event->id());
    } else {
      timed_.erase(event->id());
    }
    return event;
  }
  absl::StatusOr<bool> query(const Event& event) override {
    return device_.query(event);
  }
  absl::StatusOr<std::optional<absl::Duration>> elapsed(
      const Event& start, const Event& end) override {
    return device_.elapsed(start, end);
  }
  absl::Status mark_access(Stream stream, AccessKind kind, const void* data,
                           int64_t bytes) override {
    return device_.mark_access(stream, kind, data, bytes);
  }
  absl::Status discard(Stream stream, void* data, int64_t bytes) override {
    return device_.discard(stream, data, bytes);
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
  bool is_timed(const Event& event) const EXCLUDES_LOCK(mutex_) {
    MutexLock lock(&mutex_);
    return event && timed_.count(event.id()) > 0;
  }

  bool drops(Duty duty) const EXCLUDES_LOCK(mutex_) {
    if (duties_.count(duty) == 0) return false;
    MutexLock lock(&mutex_);
    calls_.push_back(duty);
    return static_cast<int64_t>(calls_.size()) == nth_;
  }

  Device& device_;
  // Constant after construction.
  const std::set<Duty> duties_;
  const int64_t nth_;

  mutable Mutex mutex_;
  mutable std::vector<Duty> calls_ GUARDED_BY(mutex_);
  // Ids of the live ones, and perhaps of some that are gone.
  std::set<int64_t> timed_ GUARDED_BY(mutex_);
};

}  // namespace ferry
