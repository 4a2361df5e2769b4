#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "server/core/job.h"

namespace ferry {

// Jobs of one pipeline that wait: higher priority first, then by arrival.
//
// Every change reports the jobs' positions to them (Job::set_queue_position).
//
// Threads: not thread-safe; the owner's lock guards it.
class JobQueue {
 public:
  enum class Limit { kNone, kJobs, kBytes };

  JobQueue(int max_jobs, int64_t max_bytes)
      : max_jobs_(max_jobs), max_bytes_(max_bytes) {}

  // Queues the job unless a limit is reached, which is returned.
  // `idle_ranks` take that many jobs at once: those do not wait and meet no
  // limit.
  Limit push(std::shared_ptr<Job> job, int idle_ranks);
  // Returns the first job and removes it; null when empty.
  std::shared_ptr<Job> pop();
  // Returns whether the job was there.
  bool remove(const Job& job);
  std::vector<std::shared_ptr<Job>> remove_all();

  int size() const { return static_cast<int>(jobs_.size()); }
  int64_t bytes() const { return bytes_; }
  // In order.
  std::vector<std::shared_ptr<Job>> jobs() const;

 private:
  // Negative priority, arrival.
  using Key = std::pair<int, int64_t>;

  void report_positions() const;

  const int max_jobs_;
  const int64_t max_bytes_;
  std::map<Key, std::shared_ptr<Job>> jobs_;
  int64_t bytes_ = 0;
  int64_t arrivals_ = 0;
};

}  // namespace ferry
