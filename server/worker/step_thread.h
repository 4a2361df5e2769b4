#pragma once

#include <deque>
#include <functional>
#include <thread>

#include "platform/base/mutex.h"

namespace ferry {

// The one thread that touches the pipeline: it loads, runs and destroys it.
// LibTorch keeps state per thread (grad mode, dispatch keys), so all of that
// must be the same thread.
//
// Threads: thread-safe. The destructor runs what was posted, then joins.
class StepThread {
 public:
  StepThread();
  ~StepThread();
  StepThread(const StepThread&) = delete;
  StepThread& operator=(const StepThread&) = delete;

  // Runs `task` after those posted before it. Returns at once. What a task
  // throws ends the process: call_guarded() keeps exceptions inside of it.
  void post(std::function<void()> task) EXCLUDES_LOCK(mutex_);
  // Runs `task` likewise. Blocks until it has ended.
  void run(const std::function<void()>& task) EXCLUDES_LOCK(mutex_);

 private:
  void loop() EXCLUDES_LOCK(mutex_);

  Mutex mutex_;
  // Signalled when a task comes and when one that run() waits for has ended.
  CondVar changed_;
  std::deque<std::function<void()>> tasks_ GUARDED_BY(mutex_);
  bool stopping_ GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace ferry
