#pragma once

#include <grpcpp/client_context.h>

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "client/command_context.h"
#include "client/output_collector.h"
#include "client/progress_display.h"
#include "ferry/v1/generation_service.grpc.pb.h"
#include "platform/base/mutex.h"

namespace ferry {

struct GenerateOptions {
  v1::GenerateRequest request;
  // Where the picture goes; several get their index before the extension.
  // Empty with the request's omit_data: nothing is saved.
  std::string output;
  // Where previews go, each over the one before. Default: nowhere.
  std::string preview;
};

// `ferryctl generate`: runs one generation, shows its progress and saves its
// outputs.
//
// Files are replaced as a whole, once their bytes are complete and proven; the
// paths are printed on `out` (with json: every event as a line, without image
// bytes, and a line for each file). With omit_data the outputs' SHA-256 take
// the paths' place.
//
// Threads: run() blocks its thread; interrupt() may come from any other.
class GenerateCommand {
 public:
  // `context` must outlive the command.
  GenerateCommand(const CommandContext& context, GenerateOptions options);

  // Returns the exit code. Once in an object.
  int run() EXCLUDES_LOCK(mutex_);

  // Ctrl-C: asks the server to cancel the job; a second time, or before the job
  // has a name, ends the call itself. run() returns kInterrupted then.
  void interrupt() EXCLUDES_LOCK(mutex_);

 private:
  absl::Status on_event(const v1::JobEvent& event) EXCLUDES_LOCK(mutex_);
  void on_job(const v1::Job& job) EXCLUDES_LOCK(mutex_);
  absl::Status on_chunk(const v1::OutputChunk& chunk);
  void tell(absl::string_view what, const v1::OutputInfo& info);
  void print_event(const v1::JobEvent& event) const;
  int finish(const absl::Status& local, const grpc::Status& remote)
      EXCLUDES_LOCK(mutex_);

  const CommandContext& context_;
  const GenerateOptions options_;
  const std::unique_ptr<v1::GenerationService::Stub> stub_;
  grpc::ClientContext call_;

  // Of run()'s thread.
  ProgressDisplay display_;
  OutputCollector collector_;
  v1::Job job_;
  // Outputs that have come whole.
  int received_ = 0;

  Mutex mutex_;
  std::string job_name_ GUARDED_BY(mutex_);
  bool interrupted_ GUARDED_BY(mutex_) = false;
};

}  // namespace ferry
