#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/time/time.h"
#include "platform/base/mutex.h"

namespace ferry {

enum class OperationKind { kCopy, kRecord, kWait, kWork, kDiscard, kAccess };

// A moment of an operation's life. An access (Device::mark_access) has only
// its call, `kEnqueued`.
struct LoggedOperation {
  enum class Phase { kEnqueued, kStarted, kEnded };

  OperationKind kind = OperationKind::kCopy;
  Phase phase = Phase::kEnqueued;
  // Of the device's operations; the same in all phases.
  int64_t number = 0;
  int64_t stream = 0;
  // Where a copy goes to, what is discarded or accessed; of an event its id.
  const void* data = nullptr;
  int64_t event = 0;
  int64_t bytes = 0;
  absl::Duration at;
};

// What a device was given and what became of it, in the order in which it
// happened. Keeps the latest entries. Off until it is started; off, it costs a
// lock. Thread-safe.
class OperationLog {
 public:
  // Forgets what it holds, and keeps up to `capacity` entries from now on; 0
  // ends it. Allocates memory here only.
  void start(size_t capacity) EXCLUDES_LOCK(mutex_);
  void add(const LoggedOperation& entry) EXCLUDES_LOCK(mutex_);
  // Oldest first.
  std::vector<LoggedOperation> entries() const EXCLUDES_LOCK(mutex_);

 private:
  mutable Mutex mutex_;
  std::vector<LoggedOperation> ring_ GUARDED_BY(mutex_);
  // Entries ever added.
  size_t added_ GUARDED_BY(mutex_) = 0;
};

}  // namespace ferry
