#pragma once

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "ferry/config/v1/offload_config.pb.h"
#include "server/core/platform_settings.h"
#include "server/supervisor/worker_gate.h"

namespace ferry {

// How the workers of one pipeline are started and watched; equal for all its
// ranks.
struct WorkerSettings {
  // The program and its first arguments.
  std::vector<std::string> command;
  // Resource name, `pipelines/{pipeline}`.
  std::string pipeline;
  // Absolute path of the package's directory.
  std::string package_dir;
  // What was asked of offloading, and how ranks divide the work.
  config::v1::OffloadConfig offload;
  config::v1::ParallelConfig parallel;
  int ranks = 1;
  // The last ones of them, whose workers come in by the gate: at most ranks
  // − 1. The gate may be null where there are none, and else outlives all
  // workers.
  int external_ranks = 0;
  WorkerGate* gate = nullptr;
  int intra_op_threads = 1;
  PlatformSettings platform;

  // From the start of the load to its end, and before that, until external
  // workers have come.
  absl::Duration load_timeout = absl::Minutes(30);
  // Between two heartbeats.
  absl::Duration heartbeat_interval = absl::Seconds(1);
  // Longest silence; see heartbeat_monitor.h for these three.
  absl::Duration heartbeat_timeout = absl::Seconds(15);
  absl::Duration step_timeout = absl::Seconds(120);
  absl::Duration cancel_grace = absl::Seconds(30);
  // From SIGTERM to SIGKILL when ferryd ends.
  absl::Duration stop_grace = absl::Seconds(3);
};

}  // namespace ferry
