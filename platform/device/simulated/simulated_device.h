#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "platform/base/clock.h"
#include "platform/base/mutex.h"
#include "platform/device/device.h"
#include "platform/device/simulated/device_memory.h"
#include "platform/device/simulated/fault_plan.h"
#include "platform/device/simulated/host_memory.h"
#include "platform/device/simulated/operation_log.h"
#include "platform/device/simulated/order_checker.h"
#include "platform/device/simulated/simulated_device_options.h"
#include "platform/device/simulated/stream_engine.h"
#include "platform/device/simulated/vector_clock.h"

namespace ferry {

// A device's rules on the CPU: memory of its own that is limited, copies that
// take time, and orders that must be asked for. It is how schedules are proven
// right and measured without a GPU.
//
// - Memory is counted exactly. Device addresses can be read by the CPU, so that
//   ordinary CPU kernels compute on them; host arenas cannot (HostMemory).
// - Transfer streams run beside the host in real time (StreamEngine). A compute
//   stream's kernels are ordinary calls of the thread that owns it, so its
//   waits block that thread.
// - With options.check, memory without content holds 0xFF, and every access is
//   checked (OrderChecker): two that conflict and that no event orders are
//   FAILED_PRECONDITION and name both, whatever the timing. So is a read of
//   bytes that nobody wrote, and a kernel's use of a host image (audit).
// - FaultPlan makes calls and copies fail; OperationLog shows what happened.
//
// Threads: thread-safe.
class SimulatedDevice final : public Device {
 public:
  // Bytes of a DeviceArena that work touches.
  struct Use {
    AccessKind kind = AccessKind::kRead;
    const void* data = nullptr;
    int64_t bytes = 0;
  };

  // REQUIRES: problems_of(options) is empty. `clock` must outlive it; one that
  // does not run by itself needs look_again() when it was moved.
  SimulatedDevice(const SimulatedDeviceOptions& options, const Clock& clock);
  ~SimulatedDevice() override = default;

  absl::StatusOr<MemoryInfo> memory_info() const override;
  int64_t allocation_granularity() const override;
  int64_t library_bytes() const override { return options_.library_bytes; }
  absl::StatusOr<DeviceArena> allocate(int64_t bytes,
                                       absl::string_view label) override;
  absl::StatusOr<HostArena> allocate_host(int64_t bytes,
                                          absl::string_view label) override;
  absl::StatusOr<HostArena> map_host_file(int fd, int64_t offset, int64_t bytes,
                                          absl::string_view label) override;
  // There is no allocator that caches.
  void empty_cache() override {}
  DeviceStats stats() const override;
  absl::Status status() override { return engine_.status(); }

  Stream current_stream() const override;
  Stream exchange_current_stream(Stream stream) override;
  absl::StatusOr<StreamLease> acquire_stream(StreamKind kind,
                                             absl::string_view label) override;
  absl::Status synchronize(Stream stream) override;
  absl::Status synchronize() override;

  absl::StatusOr<Event> create_event(bool timed) override;
  absl::Status record(const Event& event, Stream stream) override;
  absl::Status wait(Stream stream, const Event& event) override;
  absl::StatusOr<bool> query(const Event& event) override;
  absl::Status synchronize(const Event& event) override;
  absl::StatusOr<std::optional<absl::Duration>> elapsed(
      const Event& start, const Event& end) override;

  absl::Status copy_async(Stream stream, const Copy& copy) override;
  absl::Status mark_access(Stream stream, AccessKind kind, const void* data,
                           int64_t bytes) override;
  absl::Status discard(Stream stream, void* data, int64_t bytes) override;

  absl::Status audit(const void* data, int64_t bytes) const override;

  // Runs `work` in the stream's order, as a kernel that makes `uses`: a
  // collective, or a test's computation. It must not call the device. Its error
  // makes the device fail.
  absl::Status launch(Stream stream, absl::Span<const Use> uses,
                      std::function<absl::Status()> work);
  // As launch(); the work knows when it starts, and says when it ends.
  absl::Status launch_timed(Stream stream, absl::Span<const Use> uses,
                            StreamWork work);

  FaultPlan& faults() { return faults_; }
  OperationLog& operations() { return log_; }
  // What the checker found, those that a call returned included; the first
  // hundred. Empty is what every test wants.
  std::vector<std::string> violations() const EXCLUDES_LOCK(mutex_);
  // The clock was moved.
  void look_again() { engine_.look_again(); }

  void release_stream(Stream stream) override;
  void destroy_event(int64_t event) override;
  absl::Status free_device(void* data) override;
  absl::Status free_host(void* data) override;
  absl::Status begin_host_access(AccessKind kind, void* data,
                                 int64_t bytes) override;
  absl::Status end_host_access(AccessKind kind, void* data,
                               int64_t bytes) override;
  void keep_error(const absl::Status& status) override;

 private:
  struct EventState {
    bool is_live = false;
    bool is_timed = false;
    // Of its latest record; 0 for none.
    int64_t record = 0;
    StreamEngine::Point point;
    VectorClock clock;
  };

  // A copy whose sides were found.
  struct PlacedCopy {
    Copy copy;
    bool is_pageable = false;
  };

  absl::Status check_usable(Stream stream) const;
  absl::StatusOr<EventState*> find_event(const Event& event)
      REQUIRES_LOCK(mutex_);
  absl::StatusOr<EventState*> recorded_event(const Event& event)
      REQUIRES_LOCK(mutex_);
  absl::StatusOr<PlacedCopy> place(const Copy& copy) const
      REQUIRES_LOCK(mutex_);
  absl::Status require_device_bytes(const void* data, int64_t bytes) const
      REQUIRES_LOCK(mutex_);
  // Enters accesses of operation `number`; what is wrong with them is noted.
  absl::Status order(int owner, int64_t number,
                     absl::Span<const OrderChecker::Touch> touches)
      REQUIRES_LOCK(mutex_);
  absl::Status order_host(AccessType type, const void* data, int64_t bytes)
      REQUIRES_LOCK(mutex_);
  absl::Status violation(const std::string& message) const
      REQUIRES_LOCK(mutex_);
  std::string describe(const AddressRange& range) const REQUIRES_LOCK(mutex_);
  std::string owner_name(int owner) const;
  // Gives work to a stream that has passed every check.
  StreamEngine::Point give(Stream stream, StreamEngine::Operation operation)
      REQUIRES_LOCK(mutex_);
  // A compute stream's work is done by its caller, who learns what failed by
  // then.
  absl::Status carry_out(Stream stream, const StreamEngine::Point& point);
  absl::StatusOr<StreamEngine::Point> give_copy(Stream stream, const Copy& copy,
                                                bool* blocks)
      EXCLUDES_LOCK(mutex_);
  void count(const PlacedCopy& placed) REQUIRES_LOCK(mutex_);

  // Constant after construction.
  const SimulatedDeviceOptions options_;
  const uint64_t instance_;
  Stream default_stream_;

  // Internally synchronized.
  FaultPlan faults_;
  OperationLog log_;

  mutable Mutex mutex_;
  DeviceMemory memory_ GUARDED_BY(mutex_);
  HostMemory host_memory_ GUARDED_BY(mutex_);
  OrderChecker checker_ GUARDED_BY(mutex_);
  std::vector<EventState> events_ GUARDED_BY(mutex_);
  DeviceStats stats_ GUARDED_BY(mutex_);
  int64_t next_number_ GUARDED_BY(mutex_) = 1;
  mutable std::vector<std::string> violations_ GUARDED_BY(mutex_);
  absl::Status kept_error_ GUARDED_BY(mutex_);

  // Internally synchronized; it calls nobody. Last: its threads end first.
  StreamEngine engine_;
};

}  // namespace ferry
