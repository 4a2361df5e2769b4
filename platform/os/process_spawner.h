#pragma once

#include <memory>
#include <thread>

#include "absl/status/statusor.h"
#include "platform/base/mutex.h"
#include "platform/os/subprocess.h"

namespace ferry {

// Starts child processes on a thread of its own.
//
// A child dies with the thread that forked it (PR_SET_PDEATHSIG), and callers'
// threads come and go. So one spawner lives as long as the daemon, and all
// children are forked by it.
//
// Sets SIGCHLD to its default, which waiting for children needs.
//
// Ownership: must outlive every process that it started, else they are killed.
// Threads: thread-safe; calls are served one after the other.
// Errors: those of Subprocess::spawn.
class ProcessSpawner {
 public:
  ProcessSpawner();
  // REQUIRES: no spawn() is in progress.
  ~ProcessSpawner();
  ProcessSpawner(const ProcessSpawner&) = delete;
  ProcessSpawner& operator=(const ProcessSpawner&) = delete;

  // Blocks until the program has been executed or could not be.
  absl::StatusOr<std::unique_ptr<Subprocess>> spawn(
      const SubprocessOptions& options) EXCLUDES_LOCK(mutex_);

 private:
  struct Request;

  void run() EXCLUDES_LOCK(mutex_);

  Mutex mutex_;
  // Signalled when a request comes or goes, and at the end.
  CondVar changed_;
  // The one request that is being served; owned by its caller.
  Request* request_ GUARDED_BY(mutex_) = nullptr;
  bool stopping_ GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace ferry
