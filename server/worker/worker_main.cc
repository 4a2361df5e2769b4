// One rank of a worker group: loads one pipeline and runs generations, one
// after the other. ferryd starts it; see server/worker/run_worker.h.

#include <cstdio>
#include <new>
#include <string>

#include "absl/debugging/failure_signal_handler.h"
#include "absl/debugging/symbolize.h"
#include "absl/flags/flag.h"
#include "ferry/worker/v1/worker_service.pb.h"
#include "platform/base/command_line.h"
#include "platform/base/fault_point.h"
#include "platform/base/logging.h"
#include "platform/os/unique_fd.h"
#include "server/worker/pipeline_loader.h"
#include "server/worker/run_worker.h"
#include "server/worker/wave_line.h"

ABSL_FLAG(int, ipc_fd, -1, "Inherited socket to ferryd.");
ABSL_FLAG(int, lifeline_fd, -1,
          "Inherited pipe whose other end ferryd holds; its end ends this "
          "process.");
ABSL_FLAG(int, images_fd, -1,
          "Inherited file in memory, for weights that the ranks of this host "
          "share; none: each rank has its own copy.");
ABSL_FLAG(int, rank, 0, "Place in the worker group; for logs.");
ABSL_FLAG(int64_t, generation, 1, "Generation of the group; for logs.");

namespace ferry {
namespace {

constexpr int kUsageError = 1;
constexpr int kOutOfMemory = 2;

int fail(const absl::Status& status) {
  fprintf(stderr, "ferry_worker: %s\n", std::string(status.message()).c_str());
  return kUsageError;
}

int run(int argc, char** argv) {
  fault_point("start");
  const absl::StatusOr<CommandLine> line =
      parse_command_line(argc, argv, __FILE__);
  if (!line.ok()) return fail(line.status());
  if (line->help) {
    printf("ferry_worker runs one rank of a pipeline; ferryd starts it.\n\n%s",
           describe_flags(__FILE__).c_str());
    return 0;
  }
  if (!line->positional.empty()) {
    return fail(absl::InvalidArgumentError(line->positional[0] +
                                           ": only flags are expected"));
  }
  LogOptions options;
  options.component = "ferry_worker";
  if (absl::Status status = init_logging(options); !status.ok()) {
    return fail(status);
  }
  log_info("worker starts", {{"rank", absl::GetFlag(FLAGS_rank)},
                             {"generation", absl::GetFlag(FLAGS_generation)}});
  const absl::Status status = run_worker(
      {absl::GetFlag(FLAGS_ipc_fd), absl::GetFlag(FLAGS_lifeline_fd)},
      [](const worker::v1::LoadPipelineRequest& request, WaveLine* waves) {
        return load_pipeline(request, waves,
                             UniqueFd(absl::GetFlag(FLAGS_images_fd)));
      });
  return status.ok() ? 0 : fail(status);
}

}  // namespace
}  // namespace ferry

int main(int argc, char** argv) {
  // A crash writes its stack where ferryd reads the last lines.
  absl::InitializeSymbolizer(argv[0]);
  absl::InstallFailureSignalHandler({});
  try {
    return ferry::run(argc, argv);
  } catch (const std::bad_alloc&) {
    fputs("ferry_worker: out of memory\n", stderr);
    return ferry::kOutOfMemory;
  }
}
