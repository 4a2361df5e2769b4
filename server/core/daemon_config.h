#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "ferry/config/v1/offload_config.pb.h"
#include "server/core/platform_settings.h"

namespace ferry {

// One served pipeline.
struct PipelineSettings {
  // Short name; the resource is `pipelines/{name}`.
  std::string name;
  // Absolute path of the package's directory.
  std::string path;
  int ranks = 1;
  // The last ones of them; others start their workers.
  int external_ranks = 0;
  // As written; the worker checks them as a whole. Mode "auto" when nothing is
  // asked for.
  config::v1::OffloadConfig offload;
  config::v1::ParallelConfig parallel;
};

// Everything that is configured, read once at start and never changed. Made by
// config_loader.h, which checks it as a whole; the defaults stand here and
// nowhere else, the meanings in proto/ferry/config/v1/server_config.proto.
struct DaemonConfig {
  // The first one is the default.
  std::vector<PipelineSettings> pipelines;

  std::string grpc_address = "127.0.0.1:8001";
  std::string health_address;
  std::string address_file;
  int max_inflight = 256;
  int64_t max_receive_bytes = int64_t{64} << 20;
  int max_concurrent_streams = 100;
  absl::Duration slow_reader_timeout = absl::Seconds(30);
  absl::Duration keepalive_time = absl::Seconds(60);
  absl::Duration keepalive_timeout = absl::Seconds(20);
  absl::Duration min_client_ping_interval = absl::Seconds(10);
  bool enable_reflection = true;

  int max_queue_jobs = 64;
  int64_t max_queue_bytes = int64_t{512} << 20;
  absl::Duration queue_timeout = absl::Seconds(300);
  absl::Duration run_timeout = absl::Hours(1);
  int64_t max_pixels = int64_t{4} << 20;
  int max_images = 10;
  int64_t max_request_pixels = int64_t{40} << 20;
  int max_num_inference_steps = 200;
  int max_finished_jobs = 256;

  std::string worker_path;
  std::string worker_address;
  std::string worker_token_file;
  int intra_op_threads = 0;
  absl::Duration pipeline_load_timeout = absl::Minutes(30);
  absl::Duration step_timeout = absl::Seconds(120);
  absl::Duration cancel_grace = absl::Seconds(30);
  absl::Duration heartbeat_interval = absl::Seconds(1);
  absl::Duration heartbeat_timeout = absl::Seconds(15);
  absl::Duration worker_restart_backoff_min = absl::Seconds(1);
  absl::Duration worker_restart_backoff_max = absl::Seconds(60);
  int worker_restart_limit = 5;
  absl::Duration worker_restart_window = absl::Minutes(10);
  bool exit_on_load_error = true;

  absl::Duration lame_duck = absl::ZeroDuration();
  absl::Duration drain_timeout = absl::Seconds(180);
  absl::Duration hard_exit_after = absl::Seconds(10);

  PlatformSettings platform;

  std::string log_level = "info";
  std::string log_format = "json";
  std::string log_file;
};

}  // namespace ferry
