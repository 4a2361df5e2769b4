#include "server/core/job_queue.h"

#include <algorithm>

#include "ferry/v1/job.pb.h"
#include "platform/base/check.h"
#include "server/core/pass_grouping.h"

namespace ferry {

JobQueue::Limit JobQueue::push(std::shared_ptr<Job> job, int idle_ranks) {
  FERRY_CHECK(job != nullptr);
  FERRY_CHECK_EQ(job->state(), v1::Job::STATE_QUEUED);
  if (size() >= idle_ranks) {
    if (size() - idle_ranks >= max_jobs_) return Limit::kJobs;
    if (job->queue_bytes() > max_bytes_ - bytes_) return Limit::kBytes;
  }
  bytes_ += job->queue_bytes();
  const Key key(-job->priority(), ++arrivals_);
  jobs_.emplace(key, Entry{std::move(job)});
  report_positions();
  return Limit::kNone;
}

std::shared_ptr<Job> JobQueue::pop(double last_work, int max_overtaken) {
  if (jobs_.empty()) return nullptr;
  const int highest = jobs_.begin()->second.job->priority();
  std::vector<WaitingPass> waiting;
  for (const auto& [key, entry] : jobs_) {
    if (entry.job->priority() != highest) break;
    waiting.push_back({entry.job->work().pass, entry.overtaken});
  }
  auto chosen = jobs_.begin();
  for (size_t left = choose_by_pass(waiting, last_work, max_overtaken);
       left > 0; --left) {
    ++chosen->second.overtaken;
    ++chosen;
  }
  return take(chosen);
}

std::shared_ptr<Job> JobQueue::take(Entries::iterator entry) {
  std::shared_ptr<Job> job = std::move(entry->second.job);
  jobs_.erase(entry);
  bytes_ -= job->queue_bytes();
  report_positions();
  return job;
}

bool JobQueue::remove(const Job& job) {
  const auto it = std::find_if(
      jobs_.begin(), jobs_.end(),
      [&](const auto& entry) { return entry.second.job.get() == &job; });
  if (it == jobs_.end()) return false;
  take(it);
  return true;
}

std::vector<std::shared_ptr<Job>> JobQueue::remove_all() {
  std::vector<std::shared_ptr<Job>> result = jobs();
  jobs_.clear();
  bytes_ = 0;
  return result;
}

std::vector<std::shared_ptr<Job>> JobQueue::jobs() const {
  std::vector<std::shared_ptr<Job>> result;
  result.reserve(jobs_.size());
  for (const auto& [key, entry] : jobs_) result.push_back(entry.job);
  return result;
}

std::vector<std::shared_ptr<Job>> JobQueue::jobs_before(
    int priority, int max_overtaken) const {
  std::vector<std::shared_ptr<Job>> result;
  for (const auto& [key, entry] : jobs_) {
    if (entry.job->priority() > priority ||
        (entry.job->priority() == priority &&
         entry.overtaken >= max_overtaken)) {
      result.push_back(entry.job);
    }
  }
  return result;
}

void JobQueue::report_positions() const {
  int position = 0;
  for (const auto& [key, entry] : jobs_) {
    entry.job->set_queue_position(position++);
  }
}

}  // namespace ferry
