#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "platform/base/check.h"
#include "platform/base/clock.h"
#include "platform/base/mutex.h"
#include "platform/device/device.h"
#include "platform/device/simulated/copy_schedule.h"
#include "platform/device/simulated/operation_log.h"
#include "platform/device/simulated/ring_queue.h"
#include "platform/device/simulated/simulated_device_options.h"
#include "platform/device/stream.h"

namespace ferry {

// When work of a stream runs, by set times: a thread that wakes late delays one
// operation, and not all after it.
struct WorkTimes {
  // When its stream came to it.
  absl::Duration start;
  // The work may say when it ends; if that has passed, it ends when it returns.
  // By default that is when it returns.
  std::optional<absl::Duration> end;
};

// An error, or an exception, makes the device fail.
using StreamWork = std::function<absl::Status(WorkTimes& times)>;

// Runs the streams of a simulated device, in real time: a transfer stream is a
// thread that carries out what it is given, in order. The work of a compute
// stream is done by the thread that gives it, since there its kernels are
// ordinary calls: when a compute stream waits for an event, the caller blocks.
//
// It knows time, not right or wrong: orders are OrderChecker's.
//
// Threads: thread-safe. Owns the streams' threads.
// Errors: an operation that fails while it runs makes the device fail: error()
// says so for ever, later copies do nothing, and waits still end. One that
// fails without a word does so when somebody has asked for status().
class StreamEngine {
 public:
  // A place in a stream's work: its `sequence`-th operation, 0 for none.
  struct Point {
    int64_t stream = 0;
    int64_t sequence = 0;
  };

  struct Operation {
    OperationKind kind = OperationKind::kCopy;
    // Of the device's operations.
    int64_t number = 0;
    // kCopy, with addresses that the copying thread can use; kDiscard its
    // destination. `data` is what the log shows.
    Copy copy;
    const void* data = nullptr;
    absl::Duration given_at;
    // kCopy: takes longer, or fails, with or without a word.
    absl::Duration delay;
    absl::Status fault;
    absl::Status silent_fault;
    // kWait.
    Point dependency;
    // kRecord, kWait: the event. kRecord: which of its records.
    int64_t event = 0;
    int64_t record = 0;
    // kWork.
    StreamWork work;
  };

  // `clock` and `log` must outlive it.
  StreamEngine(const SimulatedDeviceOptions& options, const Clock& clock,
               OperationLog* log);
  // Carries out what is left, without taking its time.
  ~StreamEngine();
  StreamEngine(const StreamEngine&) = delete;
  StreamEngine& operator=(const StreamEngine&) = delete;

  // Streams are numbered from 1. A closed one is opened again, for its kind.
  // RESOURCE_EXHAUSTED: all of VectorClock::kMaxStreams are open.
  absl::StatusOr<int64_t> open(StreamKind kind, absl::string_view label)
      EXCLUDES_LOCK(mutex_);
  void close(int64_t stream) EXCLUDES_LOCK(mutex_);
  bool is_open(int64_t stream) const EXCLUDES_LOCK(mutex_);
  // "copy (1)".
  std::string label(int64_t stream) const EXCLUDES_LOCK(mutex_);

  // Gives work to a stream. Returns before it is done; that of a compute
  // stream is done when somebody awaits it. REQUIRES: the stream is open.
  Point enqueue(int64_t stream, Operation operation) EXCLUDES_LOCK(mutex_);
  // The last operation that the stream was given.
  Point last(int64_t stream) const EXCLUDES_LOCK(mutex_);

  // From now on records of this event are timed without an allocation.
  void add_event(int64_t event) EXCLUDES_LOCK(mutex_);
  bool reached(const Point& point) const EXCLUDES_LOCK(mutex_);
  // Blocks until the point is reached.
  void await(const Point& point) EXCLUDES_LOCK(mutex_);
  // Blocks until all that has been given to any stream is done.
  void await_all() EXCLUDES_LOCK(mutex_);

  // When this record of the event was complete; nothing when it is not, or
  // when a later one has taken its place.
  std::optional<absl::Duration> recorded_at(int64_t event, int64_t record) const
      EXCLUDES_LOCK(mutex_);
  absl::Status error() const EXCLUDES_LOCK(mutex_);
  // The same, and what failed without a word: error() says so from now on.
  absl::Status status() EXCLUDES_LOCK(mutex_);

  // Looks at the clock again; for clocks that are moved by hand.
  void look_again() EXCLUDES_LOCK(mutex_);

 private:
  static constexpr size_t kRemembered = 256;

  struct StreamState {
    int64_t id = 0;
    StreamKind kind = StreamKind::kCompute;
    std::string label;
    bool is_open = false;
    RingQueue<Operation> queue;
    int64_t given = 0;
    // Read without the mutex where somebody spins.
    std::atomic<int64_t> done{0};
    // An operation is about to end: it pays to spin.
    std::atomic<bool> ending{false};
    bool running = false;
    // When its last operation ended by the schedule, and the ones before.
    absl::Duration time;
    std::array<absl::Duration, kRemembered> ended_at;
    CondVar work_to_do;
    std::thread thread;
  };

  struct RecordTime {
    int64_t record = 0;
    absl::Duration at;
  };

  StreamState& state(int64_t stream) const REQUIRES_LOCK(mutex_) {
    FERRY_CHECK_GE(stream, 1);
    FERRY_CHECK_LE(static_cast<size_t>(stream), streams_.size());
    return *streams_[static_cast<size_t>(stream - 1)];
  }

  void run_thread(int64_t stream) EXCLUDES_LOCK(mutex_);
  // `helps`: may carry out the work of compute streams.
  void await_locked(const Point& point, bool helps) REQUIRES_LOCK(mutex_);
  void run_next(int64_t stream) REQUIRES_LOCK(mutex_);
  void run(StreamState& stream, const Operation& operation)
      REQUIRES_LOCK(mutex_);
  void run_wait(StreamState& stream, const Operation& operation)
      REQUIRES_LOCK(mutex_);
  void run_record(const StreamState& stream, const Operation& operation)
      REQUIRES_LOCK(mutex_);
  void run_copy(StreamState& stream, const Operation& operation)
      REQUIRES_LOCK(mutex_);
  void run_work(StreamState& stream, const Operation& operation)
      REQUIRES_LOCK(mutex_);
  void take_engine() REQUIRES_LOCK(mutex_);
  // Copies, and learns how long that takes.
  void move_bytes(const Copy& copy) REQUIRES_LOCK(mutex_);
  // The stream's operation ends then: blocks until it pays to spin, for whoever
  // waits for the operation, too.
  void announce_end(StreamState& stream, absl::Duration end)
      REQUIRES_LOCK(mutex_);
  // Blocks until the clock shows `end`; the last `spin` awake.
  void wait_until(absl::Duration end, absl::Duration spin)
      REQUIRES_LOCK(mutex_);
  void log(const StreamState& stream, const Operation& operation,
           LoggedOperation::Phase phase, absl::Duration at) const;

  // Constant after construction.
  const Clock& clock_;
  const bool precise_;
  const bool poison_;
  const int copy_engines_;
  OperationLog* const log_;

  mutable Mutex mutex_;
  // Streams are never removed.
  std::vector<std::unique_ptr<StreamState>> streams_ GUARDED_BY(mutex_);
  CopySchedule schedule_ GUARDED_BY(mutex_);
  // Copy engines are given out in the order in which they are asked for.
  int busy_engines_ GUARDED_BY(mutex_) = 0;
  int64_t next_ticket_ GUARDED_BY(mutex_) = 0;
  int64_t served_tickets_ GUARDED_BY(mutex_) = 0;
  // How long a byte takes to copy in truth.
  double seconds_per_byte_ GUARDED_BY(mutex_) = 1e-10;
  std::vector<RecordTime> record_times_ GUARDED_BY(mutex_);
  absl::Status error_ GUARDED_BY(mutex_);
  // Nobody has asked for it yet.
  absl::Status silent_error_ GUARDED_BY(mutex_);
  bool stopping_ GUARDED_BY(mutex_) = false;
  // An operation ended, is about to, or an engine is free.
  CondVar progress_;
  // The clock was moved, or all ends.
  CondVar clock_moved_;
};

}  // namespace ferry
