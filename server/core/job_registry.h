#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "absl/status/statusor.h"
#include "ferry/v1/generation_service.pb.h"
#include "platform/base/mutex.h"
#include "server/core/job.h"

namespace ferry {

// Knows the jobs by name: all that have not ended, and the latest that have.
//
// Threads: thread-safe.
class JobRegistry {
 public:
  // Keeps `max_finished` jobs that have ended.
  explicit JobRegistry(int max_finished);

  // A name with 128 random bits. Thread-safe.
  static std::string new_name();

  // REQUIRES: no job of this name was added.
  void add(std::shared_ptr<Job> job) EXCLUDES_LOCK(mutex_);
  // The job has ended: it, or an older one, may be forgotten now. REQUIRES: it
  // was added, and is marked for the first time.
  void mark_finished(const Job& job) EXCLUDES_LOCK(mutex_);

  // NOT_FOUND with JOB_NOT_FOUND, or JOB_EXPIRED for one of the jobs that were
  // forgotten lately. INVALID_ARGUMENT when the name does not start with jobs/.
  absl::StatusOr<std::shared_ptr<Job>> find(const std::string& name) const
      EXCLUDES_LOCK(mutex_);

  // Newest first, without specs and outputs. A page ends at page_size or
  // 512 KiB. Page tokens are good for one filter and one process; a job that
  // comes or goes between two pages moves no other.
  absl::StatusOr<v1::ListJobsResponse> list(
      const v1::ListJobsRequest& request) const EXCLUDES_LOCK(mutex_);

 private:
  const size_t max_finished_;
  // Marks this registry's page tokens.
  const std::string incarnation_;

  mutable Mutex mutex_;
  // By age.
  std::map<int64_t, std::shared_ptr<Job>> jobs_ GUARDED_BY(mutex_);
  std::unordered_map<std::string, int64_t> numbers_ GUARDED_BY(mutex_);
  int64_t last_number_ GUARDED_BY(mutex_) = 0;
  // Numbers of the jobs that have ended, oldest end first.
  std::deque<int64_t> finished_ GUARDED_BY(mutex_);
  // Names of forgotten jobs, oldest first.
  std::deque<std::string> expired_ GUARDED_BY(mutex_);
  std::unordered_set<std::string> expired_set_ GUARDED_BY(mutex_);
};

}  // namespace ferry
