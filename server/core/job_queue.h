#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "server/core/job.h"

namespace ferry {

// Jobs of one pipeline that wait: higher priority first, then by arrival. Of
// the highest priority a later one may be taken (pass_grouping.h).
//
// Every change reports the jobs' positions to them (Job::set_queue_position):
// how many are before each in that order, be they overtaken or not.
//
// Threads: not thread-safe; the owner's lock guards it.
class JobQueue {
 public:
  enum class Limit { kNone, kJobs, kBytes };

  JobQueue(int max_jobs, int64_t max_bytes)
      : max_jobs_(max_jobs), max_bytes_(max_bytes) {}

  // Queues the job unless a limit is reached, which is returned.
  // `idle_ranks` take that many jobs at once: those do not wait and meet no
  // limit. REQUIRES: the job is QUEUED.
  Limit push(std::shared_ptr<Job> job, int idle_ranks);
  // Removes a job and returns it; null when empty. It is the one of the highest
  // priority that choose_by_pass() chooses; with a `max_overtaken` of 0 that is
  // the first.
  std::shared_ptr<Job> pop(double last_work, int max_overtaken);
  // Returns whether the job was there.
  bool remove(const Job& job);
  std::vector<std::shared_ptr<Job>> remove_all();

  int size() const { return static_cast<int>(jobs_.size()); }
  int64_t bytes() const { return bytes_; }
  // In order.
  std::vector<std::shared_ptr<Job>> jobs() const;
  // Those that a job of this priority which arrives now cannot overtake, in
  // order: of higher priority, and the equal ones that have been overtaken
  // `max_overtaken` times. With 0 that is all of them.
  std::vector<std::shared_ptr<Job>> jobs_before(int priority,
                                                int max_overtaken) const;

 private:
  // Negative priority, arrival.
  using Key = std::pair<int, int64_t>;
  struct Entry {
    std::shared_ptr<Job> job;
    // By how many of the same priority.
    int overtaken = 0;
  };
  using Entries = std::map<Key, Entry>;

  std::shared_ptr<Job> take(Entries::iterator entry);
  void report_positions() const;

  const int max_jobs_;
  const int64_t max_bytes_;
  Entries jobs_;
  int64_t bytes_ = 0;
  int64_t arrivals_ = 0;
};

}  // namespace ferry
