// One rank of a worker group: loads one pipeline and runs generations, one
// after the other. ferryd starts it, or somebody else, and then it dials
// ferryd; see server/worker/run_worker.h.

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <new>
#include <string>

#include "absl/flags/flag.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "ferry/worker/v1/worker_service.pb.h"
#include "platform/base/command_line.h"
#include "platform/base/fault_point.h"
#include "platform/base/logging.h"
#include "platform/os/crash_report.h"
#include "platform/os/unique_fd.h"
#include "server/ipc/worker_exit.h"
#include "server/worker/dial_ferryd.h"
#include "server/worker/join_flags.h"
#include "server/worker/loaded_pipeline.h"
#include "server/worker/pipeline_loader.h"
#include "server/worker/rank_recorders.h"
#include "server/worker/run_worker.h"
#include "server/worker/wave_line.h"

ABSL_FLAG(int, ipc_fd, -1, "Inherited socket to ferryd.");
ABSL_FLAG(int, lifeline_fd, -1,
          "Inherited pipe whose other end ferryd holds; its end ends this "
          "process.");
ABSL_FLAG(int, images_fd, -1,
          "Inherited file in memory, for weights that the ranks of this host "
          "share; none: each rank has its own copy.");
ABSL_FLAG(int64_t, generation, 1, "Generation of the group; for logs.");

// Of workers that ferryd does not start, but for --rank.
ABSL_FLAG(int, rank, -1,
          "Place in the worker group. Default: LWS_WORKER_INDEX of the "
          "environment.");
ABSL_FLAG(int, world_size, -1,
          "Ranks of the worker group. Default: LWS_GROUP_SIZE of the "
          "environment.");
ABSL_FLAG(std::string, rendezvous, "",
          "ferryd's --worker_address as this host reaches it, HOST:PORT or "
          "[IPV6]:PORT. Default: port 8005 of LWS_LEADER_ADDRESS of the "
          "environment.");
ABSL_FLAG(std::string, pipeline, "", "Name of ferryd's pipeline.");
ABSL_FLAG(std::string, worker_token_file, "",
          "File with the token of ferryd's --worker_token_file.");
ABSL_FLAG(std::string, bind_address, "",
          "Address of this host, in numbers, from which it dials and where it "
          "listens for other ranks. Default: the one that leads to ferryd.");
ABSL_FLAG(int, device, 0, "Which of this host's GPUs it uses, from 0.");
ABSL_FLAG(absl::Duration, join_timeout, absl::Minutes(10),
          "How long it waits for ferryd.");

namespace ferry {
namespace {

constexpr int kUsageError = 1;
constexpr int kOutOfMemory = 2;

int fail(const absl::Status& status, int exit_code = kUsageError) {
  fprintf(stderr, "ferry_worker: %s\n", std::string(status.message()).c_str());
  return exit_code;
}

const char* usage() {
  return R"(ferry_worker runs one rank of a pipeline. ferryd starts it, or you, on any
host, as one of the pipeline's external ranks:

  ferry_worker --rendezvous=HOST:PORT --pipeline=NAME --rank=N --world_size=N
      --worker_token_file=FILE [flags]

Exit codes: 0 asked to end, 1 wrong flags, 2 out of memory, 5 its device failed,
6 its group failed, 7 its connection to ferryd ended, 8 ferryd did not let it in.
After 5, 6 and 7 start it again: it joins the next group.

Flags:
)";
}

std::string environment(const char* name) {
  const char* const value = getenv(name);
  return value == nullptr ? "" : value;
}

JoinFlags join_flags() {
  JoinFlags flags;
  flags.rendezvous = absl::GetFlag(FLAGS_rendezvous);
  flags.bind_address = absl::GetFlag(FLAGS_bind_address);
  flags.pipeline = absl::GetFlag(FLAGS_pipeline);
  flags.worker_token_file = absl::GetFlag(FLAGS_worker_token_file);
  flags.rank = absl::GetFlag(FLAGS_rank);
  flags.world_size = absl::GetFlag(FLAGS_world_size);
  flags.device = absl::GetFlag(FLAGS_device);
  flags.join_timeout = absl::GetFlag(FLAGS_join_timeout);
  flags.leader_address = environment("LWS_LEADER_ADDRESS");
  flags.group_size = environment("LWS_GROUP_SIZE");
  flags.worker_index = environment("LWS_WORKER_INDEX");
  return flags;
}

absl::StatusOr<std::unique_ptr<LoadedPipeline>> load(
    const worker::v1::LoadPipelineRequest& request, WaveLine* waves,
    RankRecorders* recorders) {
  return load_pipeline(request, waves, recorders,
                       UniqueFd(absl::GetFlag(FLAGS_images_fd)));
}

int run_external() {
  const absl::StatusOr<DialOptions> options = make_dial_options(join_flags());
  if (!options.ok()) return fail(options.status());
  const absl::Status status = run_external_worker(*options, load);
  if (status.ok() || absl::IsCancelled(status)) return 0;
  return fail(status, kWorkerNotLetIn);
}

int run(int argc, char** argv) {
  fault_point("start");
  const absl::StatusOr<CommandLine> line =
      parse_command_line(argc, argv, __FILE__);
  if (!line.ok()) return fail(line.status());
  if (line->help) {
    printf("%s%s", usage(), describe_flags(__FILE__).c_str());
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
  if (!line->has("ipc_fd") && !line->has("lifeline_fd")) return run_external();
  log_info("worker starts", {{"rank", absl::GetFlag(FLAGS_rank)},
                             {"generation", absl::GetFlag(FLAGS_generation)}});
  const absl::Status status = run_worker(
      {absl::GetFlag(FLAGS_ipc_fd), absl::GetFlag(FLAGS_lifeline_fd)}, load);
  return status.ok() ? 0 : fail(status);
}

}  // namespace
}  // namespace ferry

int main(int argc, char** argv) {
  // Where ferryd reads the last lines.
  ferry::report_crashes(argv[0]);
  try {
    return ferry::run(argc, argv);
  } catch (const std::bad_alloc&) {
    fputs("ferry_worker: out of memory\n", stderr);
    return ferry::kOutOfMemory;
  } catch (const std::exception& error) {
    fprintf(stderr, "ferry_worker: %s\n", error.what());
    return EXIT_FAILURE;
  }
}
