#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ferry/worker/v1/worker_service.pb.h"
#include "platform/base/check.h"
#include "platform/base/mutex.h"
#include "server/core/rank.h"

namespace ferry {

// A rank without a process: a run lasts until the test ends it. For queueing,
// cancels, losses and whatever a rank may report.
//
// Threads: thread-safe.
class FakeRank final : public Rank {
 public:
  using Emit = std::function<void(RankEvents& events)>;

  absl::StatusOr<worker::v1::GenerationSummary> run(
      const worker::v1::RunGenerationRequest& request,
      RankEvents& events) override EXCLUDES_LOCK(mutex_) {
    {
      MutexLock lock(&mutex_);
      FERRY_CHECK(!running_);
      requests_.push_back(request);
      cancelled_ = false;
      running_ = true;
      changed_.notify_all();
    }
    for (;;) {
      Emit emit;
      {
        MutexLock lock(&mutex_);
        while (emits_.empty() && ends_.empty() && !cancelled_ && !automatic_) {
          changed_.wait(&mutex_);
        }
        if (emits_.empty()) return end_locked();
        emit = std::move(emits_.front());
        emits_.pop_front();
      }
      emit(events);
    }
  }

  void cancel() override EXCLUDES_LOCK(mutex_) {
    MutexLock lock(&mutex_);
    ++cancels_;
    if (running_ && !deaf_) cancelled_ = true;
    changed_.notify_all();
  }

  bool makes_passes_with_others() const override { return with_others_; }
  // From now on it does.
  void set_makes_passes_with_others() { with_others_ = true; }

  // Makes the current or next run call `emit` on its thread.
  void emit(Emit emit) EXCLUDES_LOCK(mutex_) {
    MutexLock lock(&mutex_);
    emits_.push_back(std::move(emit));
    changed_.notify_all();
  }

  // Ends the current or next run.
  void end_run(absl::Status status) EXCLUDES_LOCK(mutex_) {
    MutexLock lock(&mutex_);
    ends_.push_back(std::move(status));
    changed_.notify_all();
  }

  // Every run ends by itself from now on.
  void set_automatic() EXCLUDES_LOCK(mutex_) {
    MutexLock lock(&mutex_);
    automatic_ = true;
    changed_.notify_all();
  }

  // cancel() has no effect from now on.
  void set_deaf() EXCLUDES_LOCK(mutex_) {
    MutexLock lock(&mutex_);
    deaf_ = true;
  }

  // Blocks until the n-th run, counted from 1, has begun; returns its request.
  worker::v1::RunGenerationRequest wait_for_run(size_t n)
      EXCLUDES_LOCK(mutex_) {
    MutexLock lock(&mutex_);
    while (requests_.size() < n) changed_.wait(&mutex_);
    return requests_[n - 1];
  }

  size_t runs() const EXCLUDES_LOCK(mutex_) {
    MutexLock lock(&mutex_);
    return requests_.size();
  }

  int cancels() const EXCLUDES_LOCK(mutex_) {
    MutexLock lock(&mutex_);
    return cancels_;
  }

 private:
  absl::StatusOr<worker::v1::GenerationSummary> end_locked()
      REQUIRES_LOCK(mutex_) {
    running_ = false;
    if (cancelled_) return absl::CancelledError("cancelled");
    absl::Status status;
    if (!ends_.empty()) {
      status = std::move(ends_.front());
      ends_.pop_front();
    }
    if (!status.ok()) return status;
    worker::v1::GenerationSummary summary;
    summary.mutable_timings()->mutable_denoise()->set_seconds(3);
    summary.mutable_offload()->set_total_h2d_bytes(1000);
    return summary;
  }

  mutable Mutex mutex_;
  CondVar changed_;
  std::vector<worker::v1::RunGenerationRequest> requests_ GUARDED_BY(mutex_);
  std::deque<Emit> emits_ GUARDED_BY(mutex_);
  std::deque<absl::Status> ends_ GUARDED_BY(mutex_);
  std::atomic<bool> with_others_ = false;
  int cancels_ GUARDED_BY(mutex_) = 0;
  bool running_ GUARDED_BY(mutex_) = false;
  bool cancelled_ GUARDED_BY(mutex_) = false;
  bool automatic_ GUARDED_BY(mutex_) = false;
  bool deaf_ GUARDED_BY(mutex_) = false;
};

}  // namespace ferry
