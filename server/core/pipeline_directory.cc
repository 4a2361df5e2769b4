#include "server/core/pipeline_directory.h"

#include <utility>

#include "platform/base/check.h"
#include "server/core/combine_offload_reports.h"

namespace ferry {

void PipelineDirectory::add(const std::string& name) {
  MutexLock lock(&mutex_);
  const auto [added, is_new] = pipelines_.try_emplace(name);
  FERRY_CHECK(is_new);
  v1::Pipeline& pipeline = added->second;
  pipeline.set_name(name);
  pipeline.set_state(v1::Pipeline::STATE_LOADING);
  if (default_name_.empty()) default_name_ = name;
}

void PipelineDirectory::update(
    const std::string& name,
    const std::function<void(v1::Pipeline& pipeline)>& change) {
  MutexLock update_lock(&update_mutex_);
  v1::Pipeline copy;
  std::vector<Listener> listeners;
  {
    MutexLock lock(&mutex_);
    has_changed_ = true;
    v1::Pipeline& pipeline = pipeline_locked(name);
    change(pipeline);
    copy = pipeline;
    listeners = listeners_;
  }
  for (const Listener& listener : listeners) listener(copy);
}

void PipelineDirectory::set_offloads(const std::string& name,
                                     std::vector<v1::OffloadReport> ranks) {
  MutexLock lock(&mutex_);
  FERRY_CHECK_EQ(pipelines_.count(name), 1u);
  offloads_[name] = std::move(ranks);
}

void PipelineDirectory::set_offload(const std::string& name, int rank,
                                    const v1::OffloadReport& offload) {
  FERRY_CHECK_GE(rank, 0);
  MutexLock lock(&mutex_);
  v1::Pipeline& pipeline = pipeline_locked(name);
  // Another group's state is none of this one's.
  if (pipeline.state() != v1::Pipeline::STATE_READY) return;
  std::vector<v1::OffloadReport>& ranks = offloads_[name];
  if (ranks.size() <= static_cast<size_t>(rank)) {
    ranks.resize(static_cast<size_t>(rank) + 1);
  }
  ranks[static_cast<size_t>(rank)] = offload;
  *pipeline.mutable_offload() = combine_offload_reports(ranks);
}

std::optional<v1::Pipeline> PipelineDirectory::find(
    const std::string& name) const {
  MutexLock lock(&mutex_);
  const auto it = pipelines_.find(name.empty() ? default_name_ : name);
  if (it == pipelines_.end()) return std::nullopt;
  return it->second;
}

std::vector<v1::Pipeline> PipelineDirectory::list() const {
  MutexLock lock(&mutex_);
  std::vector<v1::Pipeline> result;
  for (const auto& [name, pipeline] : pipelines_) result.push_back(pipeline);
  return result;
}

void PipelineDirectory::add_listener(Listener listener) {
  MutexLock lock(&mutex_);
  FERRY_CHECK(!has_changed_);
  listeners_.push_back(std::move(listener));
}

v1::Pipeline& PipelineDirectory::pipeline_locked(const std::string& name) {
  const auto found = pipelines_.find(name);
  FERRY_CHECK(found != pipelines_.end());
  return found->second;
}

}  // namespace ferry
