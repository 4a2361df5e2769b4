#include "server/core/rank_run.h"

#include <memory>
#include <utility>

#include "ferry/v1/job.pb.h"
#include "platform/base/check.h"
#include "platform/base/mutex.h"

namespace ferry {
namespace {

// The way from a cancel to the rank, cut when the run has ended: a cancel that
// comes late must not end the rank's next job.
class CancelLine {
 public:
  explicit CancelLine(Rank& rank) : rank_(&rank) {}

  void cancel() EXCLUDES_LOCK(mutex_) {
    MutexLock lock(&mutex_);
    if (rank_ != nullptr) rank_->cancel();
  }

  void cut() EXCLUDES_LOCK(mutex_) {
    MutexLock lock(&mutex_);
    rank_ = nullptr;
  }

 private:
  Mutex mutex_;
  Rank* rank_ GUARDED_BY(mutex_);
};

class Forwarder final : public RankEvents {
 public:
  Forwarder(Job& job, CancelLine& line) : job_(job), line_(line) {}

  void on_progress(v1::Progress progress) override {
    job_.add_progress(std::move(progress));
    repeat_cancel();
  }

  void on_preview(v1::Preview preview) override {
    job_.add_preview(std::move(preview));
  }

  void on_output_chunk(v1::OutputChunk chunk) override {
    job_.add_output_chunk(std::move(chunk));
    repeat_cancel();
  }

 private:
  // A cancel that met the rank before its run had begun found nothing to end.
  void repeat_cancel() {
    if (!job_.cancel_error().ok()) line_.cancel();
  }

  Job& job_;
  CancelLine& line_;
};

}  // namespace

absl::StatusOr<worker::v1::GenerationSummary> run_on_rank(Job& job,
                                                          Rank& rank) {
  FERRY_CHECK_EQ(job.state(), v1::Job::STATE_RUNNING);
  const auto line = std::make_shared<CancelLine>(rank);
  job.set_cancel_callback([line] { line->cancel(); });
  if (absl::Status error = job.cancel_error(); !error.ok()) {
    line->cut();
    return error;
  }
  worker::v1::RunGenerationRequest request;
  request.set_job(job.name());
  *request.mutable_spec() = job.effective_spec();
  Forwarder forwarder(job, *line);
  absl::StatusOr<worker::v1::GenerationSummary> result =
      rank.run(request, forwarder);
  line->cut();
  return result;
}

}  // namespace ferry
