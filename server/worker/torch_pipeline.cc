#include "server/worker/torch_pipeline.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "offload/offload_backend.h"
#include "offload/offload_stats.h"
#include "offload/torch_status.h"
#include "offload/wave_participant.h"
#include "platform/base/error_info.h"
#include "platform/base/logging.h"
#include "platform/base/saturating_math.h"
#include "platform/base/status_macros.h"
#include "platform/device/device.h"
#include "platform/device/memory_info.h"
#include "server/worker/offload_observer.h"
#include "server/worker/offload_report.h"

namespace ferry {

TorchPipeline::~TorchPipeline() {
  // LibTorch throws here, too.
  const absl::Status status = call_torch("disable", [&] { return stop(); });
  if (!status.ok()) {
    log_error("offloading could not be switched off",
              {{"error", status.ToString()}});
  }
}

absl::Status TorchPipeline::stop() {
  if (waves_ != nullptr) waves_->detach();
  OffloadBackend* const backend = parts_.choice.backend.get();
  if (backend == nullptr || !backend->is_enabled()) return absl::OkStatus();
  // What ranks share they could only give back together, or copy, and a process
  // that ends needs nothing back.
  if (parts_.group != nullptr) return absl::OkStatus();
  return backend->disable();
}

absl::StatusOr<bool> TorchPipeline::start(bool warm_up) {
  absl::StatusOr<bool> started =
      call_torch("offload", [&] { return try_start(warm_up); });
  if (!started.ok()) return explain_start(started.status());
  return started;
}

absl::StatusOr<bool> TorchPipeline::try_start(bool warm_up) {
  bool is_warm = false;
  std::optional<int64_t> free_bytes;
  if (parts_.choice.backend != nullptr) {
    RETURN_IF_ERROR(enable_offload());
    if (parts_.platform->counts_activations()) {
      ASSIGN_OR_RETURN(const MemoryInfo memory, parts_.platform->memory_info());
      free_bytes = memory.free_bytes;
    }
    ASSIGN_OR_RETURN(const bool confirmed, parts_.choice.backend->confirm([&] {
      is_warm = true;
      return run_smallest_request();
    }));
    if (!confirmed) return false;
  }
  if (warm_up && !is_warm) RETURN_IF_ERROR(run_smallest_request());
  if (free_bytes.has_value()) {
    RETURN_IF_ERROR(try_largest_request(*free_bytes));
  }
  log_offload();
  return true;
}

TorchPipeline::Parts TorchPipeline::take_apart() {
  if (waves_ != nullptr) waves_->detach();
  parts_.choice.backend.reset();
  parts_.pipeline.reset();
  return std::move(parts_);
}

absl::Status TorchPipeline::enable_offload() {
  OffloadBackend& backend = *parts_.choice.backend;
  RETURN_IF_ERROR(backend.enable(parts_.pipeline->offloadable_module()));
  WaveParticipant* const participant = backend.wave_participant();
  if (participant != nullptr && waves_ != nullptr) waves_->attach(*participant);
  return absl::OkStatus();
}

absl::Status TorchPipeline::run_smallest_request() {
  absl::Status status = parts_.pipeline->warm_up();
  if (parts_.choice.backend == nullptr) return status;
  parts_.choice.backend->end_generation();
  return status.ok() ? parts_.choice.backend->check() : status;
}

absl::Status TorchPipeline::try_largest_request(int64_t free_bytes) {
  OffloadBackend& backend = *parts_.choice.backend;
  absl::Status status = parts_.pipeline->try_largest();
  backend.end_generation();
  if (status.ok()) status = backend.check();
  // LibTorch has not given back what it used.
  const absl::StatusOr<MemoryInfo> memory = parts_.platform->memory_info();
  parts_.platform->empty_cache();
  if (!status.ok()) {
    RETURN_IF_ERROR(find_loss());
    largest_.note =
        absl::StrCat("not every request can be served: ", status.message());
  } else {
    RETURN_IF_ERROR(memory.status());
    largest_.bytes = std::max<int64_t>(free_bytes - memory->free_bytes, 0);
    const int64_t left = saturating_add(
        backend.headroom_bytes(), parts_.platform->device()->library_bytes());
    if (largest_.bytes <= left) return absl::OkStatus();
    largest_.note = absl::StrCat(
        "the largest request takes ", largest_.bytes,
        " bytes of device memory beside the weights, and ", left,
        " were left to it and to the device's libraries: set headroom_bytes");
  }
  log_warning("offload", {{"note", largest_.note}});
  return absl::OkStatus();
}

absl::StatusOr<GenerationReport> TorchPipeline::generate(
    const v1::GenerationSpec& spec, GenerationObserver& observer) {
  absl::StatusOr<GenerationReport> report =
      call_torch("generation", [&] { return generate_timed(spec, observer); });
  if (report.ok()) return report;
  // Whatever went wrong: wrong bytes can look like anything.
  RETURN_IF_ERROR(find_loss());
  return report;
}

absl::StatusOr<GenerationReport> TorchPipeline::generate_timed(
    const v1::GenerationSpec& spec, GenerationObserver& observer) {
  if (parts_.choice.backend == nullptr) {
    return parts_.pipeline->generate(spec, observer);
  }
  OffloadBackend& backend = *parts_.choice.backend;
  const OffloadStats before = backend.stats();
  OffloadObserver with_backend(backend, observer);
  absl::StatusOr<GenerationReport> report =
      parts_.pipeline->generate(spec, with_backend);
  backend.end_generation();
  if (!report.ok()) {
    // Wrong bytes can look like any error, and only another rank may know of
    // them. Whoever was told to stop does not wait for that.
    if (!absl::IsCancelled(report.status())) RETURN_IF_ERROR(backend.check());
    return report;
  }
  add_offload_timings(backend.stats().since(before), &report->timings);
  return report;
}

v1::Pipeline TorchPipeline::description() const {
  v1::Pipeline description = parts_.pipeline->description();
  *description.mutable_offload() =
      make_offload_report(parts_.pipeline->offloadable_module(), parts_.config,
                          parts_.choice, *parts_.platform, largest_);
  return description;
}

// kDeviceFailed or kGroupFailed. Who met a failed device may have been
// LibTorch, so it is asked.
absl::Status TorchPipeline::find_loss() const {
  if (parts_.group != nullptr) {
    const absl::Status group = parts_.group->status();
    if (!group.ok()) {
      return make_error(absl::StatusCode::kUnavailable, group.message(),
                        {kGroupFailed, {}});
    }
  }
  return find_device_loss();
}

absl::Status TorchPipeline::find_device_loss() const {
  Device* const device = parts_.platform->device();
  if (device == nullptr) return absl::OkStatus();
  const absl::Status status = device->status();
  if (status.ok()) return status;
  return make_error(absl::StatusCode::kInternal, status.message(),
                    {kDeviceFailed, {}});
}

// A rank that leaves with an error of its own, of which all know, fails the
// group too: that error counts then.
absl::Status TorchPipeline::explain_start(const absl::Status& error) const {
  const bool is_of_group =
      absl::IsUnavailable(error) || absl::IsDeadlineExceeded(error);
  RETURN_IF_ERROR(is_of_group ? find_loss() : find_device_loss());
  return error;
}

// Once, when it is decided.
void TorchPipeline::log_offload() const {
  // Asked for in vain.
  if (parts_.choice.backend == nullptr && parts_.config.offload_enabled()) {
    log_warning("offload", {{"strategy", "none"},
                            {"reason", parts_.choice.reason},
                            {"policy", parts_.config.describe()}});
    return;
  }
  const v1::OffloadReport report =
      make_offload_report(parts_.pipeline->offloadable_module(), parts_.config,
                          parts_.choice, *parts_.platform);
  log_info("offload", {{"strategy", report.strategy()},
                       {"reason", report.reason()},
                       {"policy", report.policy()},
                       {"resident_bytes", report.resident_bytes()},
                       {"streamed_bytes", report.streamed_bytes()},
                       {"slots", report.slots()}});
}

}  // namespace ferry
