#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "platform/base/clock.h"
#include "platform/base/mutex.h"

namespace ferry {

// The latest collective operations of a rank: what it waited for when its group
// stopped, and which operation of others that is, since their numbers are
// equal.
//
//   enqueued --> started --> ended
//        \           \----> failed
//         \---------------> failed
//
// Threads: thread-safe. Cost: a lock and a few words; allocates nothing but in
// entries() and what uses it.
class FlightRecorder {
 public:
  static constexpr int64_t kCapacity = 256;

  enum class State { kEnqueued, kStarted, kEnded, kFailed };

  struct Entry {
    // Of the operations of one recorder, from 1; 0 is no entry.
    int64_t number = 0;
    // A literal.
    const char* kind = "";
    int64_t bytes = 0;
    State state = State::kEnqueued;
    // Of the clock's monotonic time; of ended and failed ones, when they did.
    absl::Duration enqueued;
    absl::Duration started;
    absl::Duration ended;
  };

  // `label` names the recorder in the log: "weights, rank 1 of 4". `clock` must
  // outlive it.
  FlightRecorder(std::string label, const Clock& clock);

  // The operation's number. `kind` is a literal.
  int64_t enqueue(const char* kind, int64_t bytes) EXCLUDES_LOCK(mutex_);
  // What was forgotten already is left alone.
  void start(int64_t number) EXCLUDES_LOCK(mutex_);
  // The first failure writes everything to the log, once: what comes after it
  // are its consequences.
  void end(int64_t number, const absl::Status& status) EXCLUDES_LOCK(mutex_);

  // The last kCapacity operations, oldest first.
  std::vector<Entry> entries() const EXCLUDES_LOCK(mutex_);
  // One line for each, without its newline:
  //   #12 all_gather of 4096 bytes: ended, enqueued 2.5s ago, waited 20us, took
  //   1.3ms
  std::vector<std::string> lines() const EXCLUDES_LOCK(mutex_);

 private:
  static size_t place_of(int64_t number) {
    return static_cast<size_t>(number % kCapacity);
  }

  // Constant after construction.
  const std::string label_;
  const Clock& clock_;

  mutable Mutex mutex_;
  std::array<Entry, kCapacity> ring_ GUARDED_BY(mutex_);
  int64_t last_ GUARDED_BY(mutex_) = 0;
  bool has_failed_ GUARDED_BY(mutex_) = false;
};

}  // namespace ferry
