#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gtest/gtest.h"
#include "platform/base/mutex.h"
#include "server/core/pipeline_directory.h"
#include "server/core/rank.h"
#include "server/supervisor/rank_pool.h"
#include "server/supervisor/worker_supervisor.h"

namespace ferry {

// Records everything that the supervisor publishes, in order, and waits for it.
// Thread-safe.
class PublicationLog final : public RankPool {
 public:
  // Follows `directory`, which must outlive it.
  explicit PublicationLog(PipelineDirectory& directory);

  void add_rank(const std::string& pipeline,
                std::shared_ptr<Rank> rank) override EXCLUDES_LOCK(mutex_);
  void remove_rank(const std::string& pipeline,
                   const std::shared_ptr<Rank>& rank) override
      EXCLUDES_LOCK(mutex_);
  void fail_queued(const std::string& pipeline,
                   const absl::Status& error) override EXCLUDES_LOCK(mutex_);

  // Entries such as "LOADING 1", "add", "READY 1", "RESTARTING 1", "remove",
  // "fail_queued REASON"; the fixture adds "load_error MESSAGE" and
  // "budget_spent MESSAGE".
  std::vector<std::string> entries() EXCLUDES_LOCK(mutex_);
  // Blocks until something that starts so has been published, and returns it;
  // fails the test after a minute.
  std::string wait_for(const std::string& entry) EXCLUDES_LOCK(mutex_);
  // The rank that was added last.
  std::shared_ptr<Rank> rank() EXCLUDES_LOCK(mutex_);
  // Adds an entry of the test's own.
  void append(std::string entry) EXCLUDES_LOCK(mutex_);

 private:
  Mutex mutex_;
  CondVar changed_;
  std::vector<std::string> entries_ GUARDED_BY(mutex_);
  std::shared_ptr<Rank> rank_ GUARDED_BY(mutex_);
};

// What a generation sent. Confined to the thread that runs it, but for
// wait_for_step().
class CollectedEvents final : public RankEvents {
 public:
  void on_progress(v1::Progress progress) override EXCLUDES_LOCK(mutex_);
  void on_preview(v1::Preview preview) override;
  void on_output_chunk(v1::OutputChunk chunk) override;

  // Blocks until a step has been reported; fails the test after a minute.
  void wait_for_step(int step) EXCLUDES_LOCK(mutex_);

  std::vector<int> steps;
  int previews = 0;
  std::vector<v1::OutputChunk> chunks;

 private:
  Mutex mutex_;
  CondVar changed_;
  int step_ GUARDED_BY(mutex_) = 0;
};

// A supervisor of one pipeline with the scripted worker.
class SupervisorFixture : public ::testing::Test {
 protected:
  static constexpr char kPipeline[] = "pipelines/test";

  SupervisorFixture();

  // Starts the supervisor with what options_ says.
  void start(const std::string& script);
  // A request of `steps` steps.
  static worker::v1::RunGenerationRequest request(int steps = 4);
  v1::Pipeline pipeline() const { return *directory_.find(kPipeline); }
  pid_t worker_pid() const {
    return static_cast<pid_t>(pipeline().ranks(0).pid());
  }

  PipelineKeeper::Options options_;
  PipelineDirectory directory_;
  PublicationLog log_;
  std::unique_ptr<WorkerSupervisor> supervisor_;
};

}  // namespace ferry
