#include "server/frontend/health_reporter.h"

namespace ferry {

HealthReporter::HealthReporter(const std::vector<std::string>& pipelines,
                               HealthBoard* board)
    : board_(board) {
  MutexLock lock(&mutex_);
  for (const std::string& name : pipelines) pipelines_[name];
  publish();
}

void HealthReporter::set_listening() {
  MutexLock lock(&mutex_);
  listening_ = true;
  publish();
}

void HealthReporter::on_pipeline(const v1::Pipeline& pipeline) {
  MutexLock lock(&mutex_);
  PipelineHealth& health = pipelines_[pipeline.name()];
  health.ready = pipeline.state() == v1::Pipeline::STATE_READY;
  // A worker that died while loading is restarted: no end of the first load.
  if (health.ready || pipeline.state() == v1::Pipeline::STATE_FAILED ||
      pipeline.state() == v1::Pipeline::STATE_UNLOADED) {
    health.first_load_ended = true;
  }
  publish();
}

void HealthReporter::set_draining() {
  MutexLock lock(&mutex_);
  draining_ = true;
  publish();
}

void HealthReporter::publish() {
  const bool open = listening_ && !draining_;
  bool all_loaded = true;
  bool any_ready = false;
  for (const auto& [name, health] : pipelines_) {
    all_loaded = all_loaded && health.first_load_ended;
    any_ready = any_ready || health.ready;
  }
  const bool ready = open && all_loaded && any_ready;
  HealthBoard::Statuses statuses = {{"liveness", true},
                                    {"startup", listening_},
                                    {"readiness", ready},
                                    {"", ready},
                                    {"ferry.v1.GenerationService", ready}};
  for (const auto& [name, health] : pipelines_) {
    statuses[name] = open && health.ready;
  }
  board_->set(statuses);
}

}  // namespace ferry
