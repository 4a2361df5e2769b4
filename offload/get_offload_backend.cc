#include "offload/get_offload_backend.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace ferry {
namespace {

// What is derived and reported, but cannot be run.
absl::Status check_parallel(const DiffusionParallelConfig& parallel) {
  if (parallel.use_hsdp) {
    return absl::UnimplementedError(
        "parallel_config.use_hsdp: HSDP is not supported; data_parallel_size "
        "with weight_transfer \"allgather\" shards the weights as well");
  }
  if (parallel.cfg_parallel_size > 1) {
    return absl::UnimplementedError(absl::StrCat(
        "parallel_config.cfg_parallel_size: ", parallel.cfg_parallel_size,
        " is not supported; 1 runs guidance as one batched pass"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<OffloadBackendChoice> get_offload_backend(
    const OffloadConfig& config, const Platform& platform) {
  const absl::Status parallel = check_parallel(config.parallel_config());
  if (!parallel.ok()) return parallel;
  if (!config.offload_enabled() && !config.is_automatic()) {
    return OffloadBackendChoice{nullptr, "not asked for"};
  }
  if (!platform.supports_cpu_offload()) {
    return OffloadBackendChoice{
        nullptr,
        absl::StrCat("offload unsupported on platform ", platform.name(), ": ",
                     platform.offload_unsupported_reason())};
  }
  return absl::UnimplementedError(absl::StrCat(
      "offload.mode: ", config.describe(), " has no backend on platform ",
      platform.name(), "; \"none\" runs without offloading"));
}

}  // namespace ferry
