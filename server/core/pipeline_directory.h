#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ferry/v1/offload_report.pb.h"
#include "ferry/v1/pipeline.pb.h"
#include "platform/base/mutex.h"

namespace ferry {

// What is known of every configured pipeline: the one place that holds
// v1::Pipeline messages.
//
// The supervisor writes it, and the manager what ranks report of offloading;
// validation, PipelineService and health read it.
// The first configured pipeline is the default one.
//
// Threads: thread-safe. Listeners run on the writer's thread, one after the
//   other, in the order of the changes, without the lock held.
class PipelineDirectory {
 public:
  using Listener = std::function<void(const v1::Pipeline& pipeline)>;

  // Adds a pipeline, in STATE_LOADING. `name` is the resource name,
  // `pipelines/{pipeline}`. REQUIRES: `name` was not added.
  void add(const std::string& name) EXCLUDES_LOCK(mutex_);

  // Changes one pipeline under the lock and then tells the listeners.
  // REQUIRES: `name` was added.
  void update(const std::string& name,
              const std::function<void(v1::Pipeline& pipeline)>& change)
      EXCLUDES_LOCK(mutex_);

  // What offloading does on each rank of a group that is about to be READY, in
  // order of rank. No news for listeners. REQUIRES: `name` was added.
  void set_offloads(const std::string& name,
                    std::vector<v1::OffloadReport> ranks) EXCLUDES_LOCK(mutex_);
  // What it does on one of them now. Forgotten unless the pipeline is READY.
  // REQUIRES: `name` was added; rank >= 0.
  void set_offload(const std::string& name, int rank,
                   const v1::OffloadReport& offload) EXCLUDES_LOCK(mutex_);

  // Returns the pipeline, or nothing. Empty: the default one.
  std::optional<v1::Pipeline> find(const std::string& name) const
      EXCLUDES_LOCK(mutex_);

  // All pipelines, by name.
  std::vector<v1::Pipeline> list() const EXCLUDES_LOCK(mutex_);

  // REQUIRES: before the first update().
  void add_listener(Listener listener) EXCLUDES_LOCK(mutex_);

 private:
  // Ends the process unless `name` was added.
  v1::Pipeline& pipeline_locked(const std::string& name) REQUIRES_LOCK(mutex_);

  mutable Mutex mutex_;
  // Serialises update() and its listeners. Taken before mutex_.
  Mutex update_mutex_;
  std::map<std::string, v1::Pipeline> pipelines_ GUARDED_BY(mutex_);
  // By pipeline and rank; `pipelines_` has what they come to.
  std::map<std::string, std::vector<v1::OffloadReport>> offloads_
      GUARDED_BY(mutex_);
  std::string default_name_ GUARDED_BY(mutex_);
  std::vector<Listener> listeners_ GUARDED_BY(mutex_);
  // Listeners miss what came before them.
  bool has_changed_ GUARDED_BY(mutex_) = false;
};

}  // namespace ferry
