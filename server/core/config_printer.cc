#include <string>

#include "google/protobuf/text_format.h"
#include "server/core/config_loader.h"
#include "server/core/platform_settings.h"
#include "server/core/proto_time.h"

namespace ferry {

std::string print_daemon_config(const DaemonConfig& config) {
  config::v1::ServerConfig proto;
  for (const PipelineSettings& settings : config.pipelines) {
    config::v1::PipelineConfig& pipeline = *proto.add_pipelines();
    pipeline.set_name(settings.name);
    pipeline.set_path(settings.path);
    pipeline.set_ranks(settings.ranks);
    pipeline.set_external_ranks(settings.external_ranks);
    *pipeline.mutable_offload() = settings.offload;
    *pipeline.mutable_parallel() = settings.parallel;
  }
  proto.set_grpc_address(config.grpc_address);
  proto.set_health_address(config.health_address);
  proto.set_address_file(config.address_file);
  proto.set_max_inflight(config.max_inflight);
  proto.set_max_receive_bytes(config.max_receive_bytes);
  proto.set_max_concurrent_streams(config.max_concurrent_streams);
  *proto.mutable_slow_reader_timeout() = to_proto(config.slow_reader_timeout);
  *proto.mutable_keepalive_time() = to_proto(config.keepalive_time);
  *proto.mutable_keepalive_timeout() = to_proto(config.keepalive_timeout);
  *proto.mutable_min_client_ping_interval() =
      to_proto(config.min_client_ping_interval);
  proto.set_enable_reflection(config.enable_reflection);
  proto.set_max_queue_jobs(config.max_queue_jobs);
  proto.set_max_queue_bytes(config.max_queue_bytes);
  *proto.mutable_queue_timeout() = to_proto(config.queue_timeout);
  *proto.mutable_run_timeout() = to_proto(config.run_timeout);
  proto.set_max_pixels(config.max_pixels);
  proto.set_max_images(config.max_images);
  proto.set_max_request_pixels(config.max_request_pixels);
  proto.set_max_num_inference_steps(config.max_num_inference_steps);
  proto.set_max_finished_jobs(config.max_finished_jobs);
  proto.set_worker_path(config.worker_path);
  proto.set_worker_address(config.worker_address);
  proto.set_worker_token_file(config.worker_token_file);
  proto.set_intra_op_threads(config.intra_op_threads);
  *proto.mutable_pipeline_load_timeout() =
      to_proto(config.pipeline_load_timeout);
  *proto.mutable_step_timeout() = to_proto(config.step_timeout);
  *proto.mutable_cancel_grace() = to_proto(config.cancel_grace);
  *proto.mutable_heartbeat_interval() = to_proto(config.heartbeat_interval);
  *proto.mutable_heartbeat_timeout() = to_proto(config.heartbeat_timeout);
  *proto.mutable_worker_restart_backoff_min() =
      to_proto(config.worker_restart_backoff_min);
  *proto.mutable_worker_restart_backoff_max() =
      to_proto(config.worker_restart_backoff_max);
  proto.set_worker_restart_limit(config.worker_restart_limit);
  *proto.mutable_worker_restart_window() =
      to_proto(config.worker_restart_window);
  proto.set_exit_on_load_error(config.exit_on_load_error);
  *proto.mutable_lame_duck() = to_proto(config.lame_duck);
  *proto.mutable_drain_timeout() = to_proto(config.drain_timeout);
  *proto.mutable_hard_exit_after() = to_proto(config.hard_exit_after);
  proto.set_log_level(config.log_level);
  proto.set_log_format(config.log_format);
  proto.set_log_file(config.log_file);
  const PlatformSettings& platform = config.platform;
  proto.set_platform(platform.platform);
  proto.set_simulated_device_memory(platform.simulated_device_memory);
  proto.set_simulated_h2d_gbps(platform.simulated_h2d_gbps);
  proto.set_simulated_d2h_gbps(platform.simulated_d2h_gbps);
  *proto.mutable_simulated_latency() = to_proto(platform.simulated_latency);
  proto.set_simulated_copy_engines(platform.simulated_copy_engines);
  proto.set_simulated_check(platform.simulated_check);
  std::string text;
  google::protobuf::TextFormat::PrintToString(proto, &text);
  return text;
}

}  // namespace ferry
