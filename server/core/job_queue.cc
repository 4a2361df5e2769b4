#include "server/core/job_queue.h"

#include <algorithm>

namespace ferry {

JobQueue::Limit JobQueue::push(std::shared_ptr<Job> job, int idle_ranks) {
  if (size() >= idle_ranks) {
    if (size() - idle_ranks >= max_jobs_) return Limit::kJobs;
    if (job->queue_bytes() > max_bytes_ - bytes_) return Limit::kBytes;
  }
  bytes_ += job->queue_bytes();
  const Key key(-job->priority(), ++arrivals_);
  jobs_.emplace(key, std::move(job));
  report_positions();
  return Limit::kNone;
}

std::shared_ptr<Job> JobQueue::pop() {
  if (jobs_.empty()) return nullptr;
  std::shared_ptr<Job> job = std::move(jobs_.begin()->second);
  jobs_.erase(jobs_.begin());
  bytes_ -= job->queue_bytes();
  report_positions();
  return job;
}

bool JobQueue::remove(const Job& job) {
  const auto it = std::find_if(
      jobs_.begin(), jobs_.end(),
      [&](const auto& entry) { return entry.second.get() == &job; });
  if (it == jobs_.end()) return false;
  bytes_ -= job.queue_bytes();
  jobs_.erase(it);
  report_positions();
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
  for (const auto& [key, job] : jobs_) result.push_back(job);
  return result;
}

void JobQueue::report_positions() const {
  int position = 0;
  for (const auto& [key, job] : jobs_) job->set_queue_position(position++);
}

}  // namespace ferry
