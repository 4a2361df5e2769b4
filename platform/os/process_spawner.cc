#include "platform/os/process_spawner.h"

#include <signal.h>

#include <optional>
#include <utility>

#include "platform/base/check.h"

namespace ferry {

struct ProcessSpawner::Request {
  const SubprocessOptions& options;
  std::optional<absl::StatusOr<std::unique_ptr<Subprocess>>> result;
};

ProcessSpawner::ProcessSpawner() : thread_([this] { run(); }) {
  // Whoever started this process may have left SIGCHLD ignored; the kernel
  // would then reap the children and forget how they ended.
  signal(SIGCHLD, SIG_DFL);
}

ProcessSpawner::~ProcessSpawner() {
  {
    MutexLock lock(&mutex_);
    FERRY_CHECK(request_ == nullptr);
    stopping_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

absl::StatusOr<std::unique_ptr<Subprocess>> ProcessSpawner::spawn(
    const SubprocessOptions& options) {
  Request request{options, std::nullopt};
  MutexLock lock(&mutex_);
  while (request_ != nullptr) changed_.wait(&mutex_);
  request_ = &request;
  changed_.notify_all();
  while (!request.result.has_value()) changed_.wait(&mutex_);
  return *std::move(request.result);
}

void ProcessSpawner::run() {
  MutexLock lock(&mutex_);
  while (true) {
    while (request_ == nullptr && !stopping_) changed_.wait(&mutex_);
    if (request_ == nullptr) return;
    // The lock is held meanwhile: nobody else may use the thread anyway.
    request_->result = Subprocess::spawn(request_->options);
    request_ = nullptr;
    changed_.notify_all();
  }
}

}  // namespace ferry
