#include "server/worker/pipeline_loader.h"

#include <string>
#include <utility>

#include "ferry/config/v1/platform_config.pb.h"
#include "offload/get_offload_backend.h"
#include "offload/host_memory_left.h"
#include "offload/offload_config.h"
#include "offload/torch_status.h"
#include "pipelines/package.h"
#include "pipelines/pipeline.h"
#include "platform/base/clock.h"
#include "platform/base/logging.h"
#include "platform/base/status_macros.h"
#include "platform/device/get_platform.h"
#include "platform/device/platform.h"
#include "platform/device/platform_options.h"
#include "platform/device/simulated/simulated_device_options.h"
#include "platform/os/host_memory_limit.h"
#include "platform/os/unique_fd.h"
#include "server/core/proto_time.h"
#include "server/worker/join_group.h"
#include "server/worker/offload_settings.h"
#include "server/worker/rank_recorders.h"
#include "server/worker/torch_pipeline.h"
#include "server/worker/wave_line.h"

namespace ferry {
namespace {

absl::StatusOr<PlatformOptions> platform_options(
    const config::v1::PlatformConfig& config) {
  PlatformOptions options;
  if (!config.platform().empty()) options.name = config.platform();
  SimulatedDeviceOptions& simulated = options.simulated;
  if (config.has_simulated_device_memory()) {
    simulated.memory_bytes = config.simulated_device_memory();
  }
  if (config.has_simulated_h2d_gbps()) {
    simulated.h2d_gbps = config.simulated_h2d_gbps();
  }
  if (config.has_simulated_d2h_gbps()) {
    simulated.d2h_gbps = config.simulated_d2h_gbps();
  }
  if (config.has_simulated_latency()) {
    ASSIGN_OR_RETURN(simulated.latency, from_proto(config.simulated_latency()));
  }
  if (config.has_simulated_copy_engines()) {
    simulated.copy_engines = config.simulated_copy_engines();
  }
  if (config.has_simulated_check()) {
    simulated.check = config.simulated_check();
  }
  return options;
}

// The operator's policy, with what the package says where the operator does
// not.
absl::StatusOr<OffloadConfig> offload_config(
    const worker::v1::LoadPipelineRequest& request) {
  ASSIGN_OR_RETURN(OffloadConfig config, make_offload_config(request));
  ASSIGN_OR_RETURN(const Package package, Package::load(request.package_dir()));
  if (!package.manifest.has_headroom_bytes()) return config;
  return config.with_default_headroom(package.manifest.headroom_bytes());
}

JoinedGroup::Gathers gathers_of(const OffloadConfig& config) {
  if (config.effective_group_size() > 1) return JoinedGroup::Gathers::kAlways;
  return config.is_automatic() && config.group_size() > 1
             ? JoinedGroup::Gathers::kMaybe
             : JoinedGroup::Gathers::kNever;
}

HostMemoryLeft host_memory() {
  const HostMemoryLimit limit = host_memory_limit();
  return {limit.available_bytes, limit.limited_by};
}

// What a pipeline stands on.
absl::StatusOr<TorchPipeline::Parts> prepare(
    const worker::v1::LoadPipelineRequest& request, RankRecorders* recorders,
    UniqueFd images) {
  TorchPipeline::Parts parts;
  ASSIGN_OR_RETURN(parts.config, offload_config(request));
  ASSIGN_OR_RETURN(PlatformOptions options,
                   platform_options(request.platform()));
  options.cuda.index = request.device_index();
  options.cuda.pin_host_memory = parts.config.pin_memory();
  ASSIGN_OR_RETURN(parts.platform, get_platform(options));
  Platform& platform = *parts.platform;
  const JoinedGroup::Gathers gathers = gathers_of(parts.config);
  if ((gathers != JoinedGroup::Gathers::kNever || images.valid()) &&
      platform.supports_cpu_offload()) {
    ASSIGN_OR_RETURN(parts.group,
                     JoinedGroup::join(request, platform, *recorders, gathers));
    parts.group->ranks().images = std::move(images);
  }
  return parts;
}

// The pipeline, on the host, and the backend for it.
absl::Status load(const worker::v1::LoadPipelineRequest& request, bool warm_up,
                  TorchPipeline::Parts& parts) {
  Platform& platform = *parts.platform;
  ASSIGN_OR_RETURN(
      parts.choice,
      get_offload_backend(
          parts.config, platform, host_memory,
          parts.group == nullptr ? nullptr : &parts.group->ranks()));
  if (parts.choice.backend == nullptr && parts.group != nullptr) {
    // Nobody packs images, or gathers.
    parts.group->ranks().images.reset();
    parts.group->ranks().join_devices = nullptr;
  }
  const absl::Duration start = Clock::real().monotonic();
  ASSIGN_OR_RETURN(parts.pipeline,
                   Pipeline::load(request.package_dir(),
                                  {request.intra_op_threads(), warm_up,
                                   parts.choice.backend != nullptr}));
  log_info(
      "pipeline loaded",
      {{"pipeline", request.pipeline()},
       {"seconds", absl::ToDoubleSeconds(Clock::real().monotonic() - start)},
       {"threads", request.intra_op_threads()},
       {"platform", platform.name()},
       {"device", platform.torch_device()}});
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<LoadedPipeline>> load_and_start(
    const worker::v1::LoadPipelineRequest& request, WaveLine* waves,
    RankRecorders* recorders, UniqueFd images) {
  ASSIGN_OR_RETURN(TorchPipeline::Parts parts,
                   prepare(request, recorders, std::move(images)));
  for (const std::string& note : parts.config.notes()) {
    log_info("offload configuration", {{"note", note}});
  }
  // What shall run elsewhere is not tried on the host, where it may take long.
  const bool runs_on_host = parts.platform->torch_device() == "cpu";
  bool is_first = true;
  for (;;) {
    RETURN_IF_ERROR(load(request, runs_on_host && is_first, parts));
    auto loaded = std::make_unique<TorchPipeline>(std::move(parts), waves);
    // Loaded again, it runs again, since it may be gathering that failed.
    ASSIGN_OR_RETURN(const bool started,
                     loaded->start(!runs_on_host || !is_first));
    if (started) return loaded;
    parts = loaded->take_apart();
    is_first = false;
    log_info("the pipeline is loaded again",
             {{"reason", parts.group->ranks().not_worth_it}});
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<LoadedPipeline>> load_pipeline(
    const worker::v1::LoadPipelineRequest& request, WaveLine* waves,
    RankRecorders* recorders, UniqueFd images) {
  return call_torch(request.package_dir(), [&] {
    return load_and_start(request, waves, recorders, std::move(images));
  });
}

}  // namespace ferry
