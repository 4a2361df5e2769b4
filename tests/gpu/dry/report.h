#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <string>

#include "platform/base/mutex.h"

namespace ferry::dry {

// What a process did with CUDA: the rules that it broke and how often it did
// what costs time. Each broken rule is a JSON line of the log at once,
//   {"rule": "event_on_other_device", "call": "cudaEventRecord",
//    "detail": "…", "program": "ferry_worker", "pid": 7, "thread": 8}
// and the counters are one line when the process ends,
//   {"report": {"launches": 7, …}, "program": "ferry_worker", "pid": 7}
// Lines are added whole, so that processes may share a log.
//
// Threads: thread-safe.
class Report {
 public:
  explicit Report(std::string log);

  // Says that `call` broke `rule`.
  void broke(const char* rule, const char* call, const std::string& detail)
      EXCLUDES_LOCK(mutex_);
  // How often `rule` was broken; null counts all.
  int64_t broken(const char* rule) const EXCLUDES_LOCK(mutex_);

  // Adds to the counter `name`, a literal.
  void count(const char* name, int64_t amount = 1) EXCLUDES_LOCK(mutex_);
  int64_t counter(const std::string& name) const EXCLUDES_LOCK(mutex_);

  // Writes the counters' line, if there is something to tell.
  void finish() EXCLUDES_LOCK(mutex_);

 private:
  void write(const std::string& line) const;

  const std::string log_;
  mutable Mutex mutex_;
  std::map<std::string, int64_t> broken_ GUARDED_BY(mutex_);
  std::map<std::string, int64_t, std::less<>> counters_ GUARDED_BY(mutex_);
};

}  // namespace ferry::dry
