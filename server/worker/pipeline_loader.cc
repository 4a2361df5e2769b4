#include "server/worker/pipeline_loader.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ferry/config/v1/platform_config.pb.h"
#include "offload/get_offload_backend.h"
#include "offload/host_memory_left.h"
#include "offload/offload_config.h"
#include "offload/offload_stats.h"
#include "pipelines/package.h"
#include "pipelines/pipeline.h"
#include "platform/base/clock.h"
#include "platform/base/error_info.h"
#include "platform/base/logging.h"
#include "platform/base/status_macros.h"
#include "platform/device/get_platform.h"
#include "platform/device/platform.h"
#include "platform/device/platform_options.h"
#include "platform/device/simulated/simulated_device_options.h"
#include "platform/os/host_memory_limit.h"
#include "server/core/proto_time.h"
#include "server/worker/offload_report.h"
#include "server/worker/offload_settings.h"

namespace ferry {
namespace {

class TorchPipeline final : public LoadedPipeline {
 public:
  TorchPipeline(std::unique_ptr<Platform> platform,
                std::unique_ptr<Pipeline> pipeline, OffloadConfig config,
                OffloadBackendChoice choice)
      : platform_(std::move(platform)),
        pipeline_(std::move(pipeline)),
        config_(std::move(config)),
        choice_(std::move(choice)) {}

  ~TorchPipeline() override {
    if (choice_.backend == nullptr || !choice_.backend->is_enabled()) return;
    const absl::Status status = choice_.backend->disable();
    if (!status.ok()) {
      log_error("offloading could not be switched off",
                {{"error", status.ToString()}});
    }
  }

  // Offloads, and warms up what could not be warmed up on the host. What fails
  // leaves nothing to be used.
  absl::Status start(bool warm_up) {
    absl::Status status = enable_offload();
    if (status.ok() && warm_up) status = pipeline_->warm_up();
    return status.ok() ? status : explain(status);
  }

  absl::StatusOr<GenerationReport> generate(
      const v1::GenerationSpec& spec, GenerationObserver& observer) override {
    absl::StatusOr<GenerationReport> report = generate_timed(spec, observer);
    if (!report.ok()) return explain(report.status());
    return report;
  }

  v1::Pipeline description() const override {
    v1::Pipeline description = pipeline_->description();
    *description.mutable_offload() = make_offload_report(
        pipeline_->offloadable_module(), config_, choice_, *platform_);
    return description;
  }

  std::string device() const override { return platform_->torch_device(); }

 private:
  absl::Status enable_offload() {
    if (choice_.backend != nullptr) {
      RETURN_IF_ERROR(choice_.backend->enable(pipeline_->offloadable_module()));
    }
    log_offload();
    return absl::OkStatus();
  }

  absl::StatusOr<GenerationReport> generate_timed(
      const v1::GenerationSpec& spec, GenerationObserver& observer) {
    if (choice_.backend == nullptr) return pipeline_->generate(spec, observer);
    const OffloadStats before = choice_.backend->stats();
    ASSIGN_OR_RETURN(GenerationReport report,
                     pipeline_->generate(spec, observer));
    add_offload_timings(choice_.backend->stats().since(before),
                        &report.timings);
    return report;
  }

  // The error, or kDeviceFailed when the device has failed, be that its cause
  // or not. Who met that may have been LibTorch, so the device is asked.
  absl::Status explain(const absl::Status& error) const {
    if (platform_->device() == nullptr) return error;
    const absl::Status device = platform_->memory_info().status();
    if (!absl::IsInternal(device)) return error;
    return make_error(absl::StatusCode::kInternal, device.message(),
                      {kDeviceFailed, {}});
  }

  // Once, when it is decided.
  void log_offload() const {
    // Asked for in vain.
    if (choice_.backend == nullptr && config_.offload_enabled()) {
      log_warning("offload", {{"strategy", "none"},
                              {"reason", choice_.reason},
                              {"policy", config_.describe()}});
      return;
    }
    const v1::OffloadReport report = make_offload_report(
        pipeline_->offloadable_module(), config_, choice_, *platform_);
    log_info("offload", {{"strategy", report.strategy()},
                         {"reason", report.reason()},
                         {"policy", report.policy()},
                         {"resident_bytes", report.resident_bytes()},
                         {"streamed_bytes", report.streamed_bytes()},
                         {"slots", report.slots()}});
  }

  // In this order: each stands on those before it.
  const std::unique_ptr<Platform> platform_;
  const std::unique_ptr<Pipeline> pipeline_;
  const OffloadConfig config_;
  const OffloadBackendChoice choice_;
};

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

HostMemoryLeft host_memory() {
  const HostMemoryLimit limit = host_memory_limit();
  return {limit.available_bytes, limit.limited_by};
}

}  // namespace

absl::StatusOr<std::unique_ptr<LoadedPipeline>> load_pipeline(
    const worker::v1::LoadPipelineRequest& request) {
  if (request.world_size() != 1) {
    return absl::UnimplementedError(
        absl::StrCat("ranks: ", request.world_size(),
                     " ranks of one pipeline are not supported; 1 is"));
  }
  ASSIGN_OR_RETURN(OffloadConfig config, offload_config(request));
  ASSIGN_OR_RETURN(PlatformOptions options,
                   platform_options(request.platform()));
  options.cuda.index = request.rank();
  options.cuda.pin_host_memory = config.pin_memory();
  ASSIGN_OR_RETURN(std::unique_ptr<Platform> platform, get_platform(options));
  ASSIGN_OR_RETURN(OffloadBackendChoice choice,
                   get_offload_backend(config, *platform, host_memory));
  const absl::Duration start = Clock::real().monotonic();
  // What shall run elsewhere is not tried on the host, where it may take long.
  const bool runs_on_host = platform->torch_device() == "cpu";
  ASSIGN_OR_RETURN(std::unique_ptr<Pipeline> pipeline,
                   Pipeline::load(request.package_dir(),
                                  {request.intra_op_threads(), runs_on_host,
                                   choice.backend != nullptr}));
  log_info(
      "pipeline loaded",
      {{"pipeline", request.pipeline()},
       {"seconds", absl::ToDoubleSeconds(Clock::real().monotonic() - start)},
       {"threads", request.intra_op_threads()},
       {"platform", platform->name()},
       {"device", platform->torch_device()}});
  for (const std::string& note : config.notes()) {
    log_info("offload configuration", {{"note", note}});
  }
  auto loaded =
      std::make_unique<TorchPipeline>(std::move(platform), std::move(pipeline),
                                      std::move(config), std::move(choice));
  RETURN_IF_ERROR(loaded->start(/*warm_up=*/!runs_on_host));
  return loaded;
}

}  // namespace ferry
