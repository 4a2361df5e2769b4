#pragma once

#include <deque>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "platform/base/mutex.h"

namespace ferry {

// The last lines that a worker wrote. Thread-safe.
class LogTail {
 public:
  static constexpr size_t kLines = 20;

  void add(std::string line) EXCLUDES_LOCK(mutex_);
  // Nothing more comes.
  void close() EXCLUDES_LOCK(mutex_);

  // Blocks until close() or until `timeout` has passed.
  void wait_closed(absl::Duration timeout) EXCLUDES_LOCK(mutex_);
  // Oldest first.
  std::vector<std::string> lines() const EXCLUDES_LOCK(mutex_);

 private:
  mutable Mutex mutex_;
  CondVar closed_changed_;
  bool closed_ GUARDED_BY(mutex_) = false;
  std::deque<std::string> lines_ GUARDED_BY(mutex_);
};

}  // namespace ferry
