#pragma once

#include <cstdint>
#include <deque>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "ferry/worker/v1/worker_service.pb.h"
#include "platform/base/mutex.h"

namespace ferry {

// Carries a generation's events from the step thread to the call that writes
// them, so that the step thread never touches the stream.
//
// It holds `max_bytes` of events, or one that is larger; then push() blocks.
//
// Threads: thread-safe; one writer (push, finish) and one reader (pop,
//   abandon).
class EventQueue {
 public:
  enum class Popped { kEvent, kNothingYet, kEnd };

  explicit EventQueue(int64_t max_bytes) : max_bytes_(max_bytes) {}

  // Appends an event. Blocks while the queue is full. After abandon() it drops
  // the event. REQUIRES: not finished.
  void push(worker::v1::RunGenerationResponse event) EXCLUDES_LOCK(mutex_);
  // The generation has ended so; the writer does not touch the queue again.
  // REQUIRES: not finished.
  void finish(absl::Status status) EXCLUDES_LOCK(mutex_);

  // Takes the next event. Blocks until there is one, or the end, or `timeout`
  // has passed. kEnd comes after the last event.
  Popped pop(absl::Duration timeout, worker::v1::RunGenerationResponse* event)
      EXCLUDES_LOCK(mutex_);
  // Nobody reads any more: drops all events, from now on too.
  void abandon() EXCLUDES_LOCK(mutex_);
  // REQUIRES: pop() returned kEnd.
  absl::Status status() const EXCLUDES_LOCK(mutex_);

 private:
  const int64_t max_bytes_;
  mutable Mutex mutex_;
  CondVar changed_;
  std::deque<worker::v1::RunGenerationResponse> events_ GUARDED_BY(mutex_);
  int64_t bytes_ GUARDED_BY(mutex_) = 0;
  bool abandoned_ GUARDED_BY(mutex_) = false;
  bool finished_ GUARDED_BY(mutex_) = false;
  absl::Status status_ GUARDED_BY(mutex_);
};

}  // namespace ferry
