#pragma once

#include <map>
#include <string>
#include <vector>

#include "ferry/v1/pipeline.pb.h"
#include "platform/base/mutex.h"
#include "server/frontend/health_board.h"

namespace ferry {

// Decides what health says, and is the only one that does:
//
//   liveness        always serving: it never depends on workers
//   startup         the configuration is valid and the ports are bound
//   readiness, "", ferry.v1.GenerationService
//                   listening, not draining, every pipeline has finished its
//                   first load (ready or failed), and one is ready; a full
//                   queue changes nothing
//   pipelines/NAME  listening, not draining, and that pipeline is ready
//
// Draining is final. Threads: thread-safe; changes appear on the board in the
// order in which they were told.
class HealthReporter {
 public:
  // `pipelines` are resource names, all of which are loading. The board must
  // outlive the reporter.
  HealthReporter(const std::vector<std::string>& pipelines, HealthBoard* board);

  // The ports are bound.
  void set_listening() EXCLUDES_LOCK(mutex_);
  // A pipeline's state may have changed; PipelineDirectory's listener.
  void on_pipeline(const v1::Pipeline& pipeline) EXCLUDES_LOCK(mutex_);
  // From now on nothing serves. Call before the first request is refused.
  void set_draining() EXCLUDES_LOCK(mutex_);

 private:
  struct PipelineHealth {
    bool first_load_ended = false;
    bool ready = false;
  };

  void publish() REQUIRES_LOCK(mutex_);

  HealthBoard* const board_;
  Mutex mutex_;
  std::map<std::string, PipelineHealth> pipelines_ GUARDED_BY(mutex_);
  bool listening_ GUARDED_BY(mutex_) = false;
  bool draining_ GUARDED_BY(mutex_) = false;
};

}  // namespace ferry
