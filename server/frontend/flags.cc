#include "server/frontend/flags.h"

#include <vector>

#include "absl/flags/commandlineflag.h"
#include "absl/flags/flag.h"
#include "absl/flags/reflection.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "ferry/config/v1/server_config.pb.h"
#include "platform/base/status_macros.h"
#include "server/core/config_loader.h"

ABSL_FLAG(std::string, config, "",
          "Configuration file (ferry.config.v1.ServerConfig in text format). "
          "Flags win over it.");
ABSL_FLAG(bool, validate_config, false,
          "Checks flags and file, and ends: 0 when they are right.");
ABSL_FLAG(bool, print_effective_config, false,
          "Prints the configuration with every default, and ends. The output "
          "is a configuration file.");

// Settings: their text goes to config_loader.h, which knows defaults and
// bounds.
#define FERRY_SETTING(name, help) ABSL_FLAG(std::string, name, "", help)

FERRY_SETTING(pipeline,
              "What is served: NAME=DIR[,NAME=DIR...]; the first one is the "
              "default. Replaces the file's pipelines.");
FERRY_SETTING(ranks,
              "Worker processes of each pipeline: N, or NAME=N[,NAME=N...]. "
              "Default: 1.");

FERRY_SETTING(
    external_ranks,
    "How many of them, the last ones, others start, with "
    "ferry_worker --rendezvous on any host: N, or NAME=N[,NAME=N...]. "
    "Default: 0.");

FERRY_SETTING(grpc_address,
              "Where clients connect: HOST:PORT, [IPV6]:PORT or unix:PATH; "
              "port 0 takes a free one. Default: 127.0.0.1:8001.");
FERRY_SETTING(health_address,
              "Where only health is served, for probes. Default: nowhere.");
FERRY_SETTING(address_file,
              "File that gets the bound addresses once ferryd listens, "
              "`grpc=ADDRESS`, `health=ADDRESS` and `worker=ADDRESS`. "
              "Default: none.");
FERRY_SETTING(max_inflight,
              "Calls at a time; 32 of them are kept for calls that answer at "
              "once. Default: 256.");
FERRY_SETTING(max_receive_bytes, "Bytes of one request. Default: 64Mi.");
FERRY_SETTING(max_concurrent_streams,
              "Calls at a time of one connection. Default: 100.");
FERRY_SETTING(slow_reader_timeout,
              "A client that does not read for so long loses its stream. "
              "Default: 30s.");
FERRY_SETTING(keepalive_time,
              "Idle time before ferryd pings a client. Default: 1m.");
FERRY_SETTING(keepalive_timeout,
              "How long the answer to a ping may take. Default: 20s.");
FERRY_SETTING(min_client_ping_interval,
              "Clients may ping this often. Default: 10s.");
ABSL_FLAG(bool, enable_reflection, true, "Serves gRPC reflection.");

FERRY_SETTING(max_queue_jobs,
              "Waiting jobs of one pipeline; 0 lets none wait. Default: 64.");
FERRY_SETTING(max_queue_bytes,
              "Bytes of the waiting requests of one pipeline. Default: 512Mi.");
FERRY_SETTING(queue_timeout,
              "Longest time in the queue; requests may only lower it. "
              "Default: 5m.");
FERRY_SETTING(run_timeout, "Longest run of one generation. Default: 1h.");
FERRY_SETTING(max_pixels,
              "Pixels of one image; pipelines may only lower it. "
              "Default: 4194304.");
FERRY_SETTING(max_images,
              "Images of one request; pipelines may only lower it. "
              "Default: 10.");
FERRY_SETTING(max_request_pixels,
              "Pixels of all images of one request. Default: 41943040.");
FERRY_SETTING(max_num_inference_steps,
              "Steps; pipelines may only lower it. Default: 200.");
FERRY_SETTING(max_finished_jobs,
              "Finished jobs whose metadata is kept. Default: 256.");

FERRY_SETTING(worker_path,
              "Worker program. Default: ../worker/ferry_worker or "
              "ferry_worker, seen from ferryd's directory.");
FERRY_SETTING(worker_address,
              "Where the workers of external ranks connect: HOST:PORT or "
              "[IPV6]:PORT, on a network that you trust. Default: nowhere.");
FERRY_SETTING(worker_token_file,
              "File with the token that they show: 16 to 256 printable "
              "characters. Default: none.");
FERRY_SETTING(intra_op_threads,
              "Threads of one operator in a worker. Default: 0, the CPUs that "
              "may be used divided by the ranks.");
FERRY_SETTING(pipeline_load_timeout,
              "Longest load of a pipeline. Default: 30m.");
FERRY_SETTING(step_timeout,
              "Longest time without progress of a running job. Default: 2m.");
FERRY_SETTING(cancel_grace,
              "Longest time from a cancel to its effect. Default: 30s.");
FERRY_SETTING(heartbeat_interval, "Between two heartbeats. Default: 1s.");
FERRY_SETTING(heartbeat_timeout,
              "A worker that answers no heartbeat for so long is lost. "
              "Default: 15s.");
FERRY_SETTING(worker_restart_backoff_min,
              "Pause before the second restart of a worker group; the first "
              "is immediate. It doubles with each. Default: 1s.");
FERRY_SETTING(worker_restart_backoff_max,
              "Longest pause before a restart. Default: 1m.");
FERRY_SETTING(worker_restart_limit,
              "Restarts within the window before ferryd gives up. "
              "Default: 5.");
FERRY_SETTING(worker_restart_window, "The window. Default: 10m.");
ABSL_FLAG(bool, exit_on_load_error, true,
          "Ends ferryd when a pipeline cannot be loaded.");

FERRY_SETTING(lame_duck,
              "After SIGTERM, requests are still accepted for so long. "
              "Default: 0s.");
FERRY_SETTING(drain_timeout,
              "After that, running jobs may finish for so long. Default: 3m.");
FERRY_SETTING(hard_exit_after,
              "After that, the process ends within this time, come what may. "
              "Default: 10s.");

FERRY_SETTING(platform,
              "Device of the workers: auto, cpu, cuda or simulated (the CPU "
              "plays a device, for tests and demonstrations). Default: auto.");
FERRY_SETTING(simulated_device_memory,
              "Bytes of the simulated device's memory. Default: 8Gi.");
FERRY_SETTING(simulated_h2d_gbps,
              "Its rate from host to device, in 10^9 bytes a second. "
              "Default: 25.");
FERRY_SETTING(simulated_d2h_gbps, "Its rate from device to host. Default: 25.");
FERRY_SETTING(simulated_latency,
              "From the start of a copy to its first byte. Default: 10us.");
FERRY_SETTING(simulated_copy_engines,
              "Copies that it makes at a time. Default: 2.");
ABSL_FLAG(bool, simulated_check, false,
          "Checks the order of every access to the simulated device's memory, "
          "and fills what nobody may read: slower.");

FERRY_SETTING(log_level, "debug, info, warn or error. Default: info.");
FERRY_SETTING(log_format, "json or text. Default: json.");
FERRY_SETTING(log_file, "Appended to. Default: standard error.");

namespace ferry {

absl::string_view flags_file() { return __FILE__; }

const char* usage() {
  return R"(ferryd: serves image generation over gRPC.

  ferryd --pipeline=NAME=DIR[,NAME=DIR...] [flags]

Exit codes: 0 everything that ran has finished, 1 wrong flags or configuration,
2 cannot start, 3 work was lost at the end, 4 workers died too often.

Flags:
)";
}

absl::StatusOr<DaemonConfig> configure(const CommandLine& line) {
  if (!line.positional.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", line.positional[0],
                     "': ferryd takes flags only; --help lists them"));
  }
  config::v1::ServerConfig config;
  if (const std::string path = absl::GetFlag(FLAGS_config); !path.empty()) {
    ASSIGN_OR_RETURN(config, read_server_config(path));
  }
  std::vector<std::string> errors;
  // `pipeline` stands before `ranks`, as apply_flag() wants it.
  for (const std::string& name : config_flag_names()) {
    if (!line.has(name)) continue;
    const absl::CommandLineFlag* flag = absl::FindCommandLineFlag(name);
    const absl::Status status = apply_flag(name, flag->CurrentValue(), &config);
    if (!status.ok()) errors.emplace_back(status.message());
  }
  if (!errors.empty()) {
    return absl::InvalidArgumentError(absl::StrJoin(errors, "\n"));
  }
  return make_daemon_config(config);
}

}  // namespace ferry
