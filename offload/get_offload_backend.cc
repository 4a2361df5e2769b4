#include "offload/get_offload_backend.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "offload/placement_backend.h"

namespace ferry {
namespace {

// Where a pipeline is when it was loaded.
constexpr absl::string_view kHost = "cpu";

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
    const OffloadConfig& config, Platform& platform,
    HostMemoryQuery host_memory) {
  const absl::Status parallel = check_parallel(config.parallel_config());
  if (!parallel.ok()) return parallel;
  PlacementBackendOptions options;
  options.host_memory = std::move(host_memory);
  if (!config.offload_enabled() && !config.is_automatic()) {
    if (platform.torch_device() == kHost) {
      return OffloadBackendChoice{nullptr, "not asked for"};
    }
    // Somebody has to put the weights there.
    return OffloadBackendChoice{
        std::make_unique<PlacementBackend>(platform, config,
                                           std::move(options)),
        absl::StrCat("not asked for: all weights are on ",
                     platform.torch_device())};
  }
  if (!platform.supports_cpu_offload()) {
    return OffloadBackendChoice{
        nullptr,
        absl::StrCat("offload unsupported on platform ", platform.name(), ": ",
                     platform.offload_unsupported_reason())};
  }
  if (config.effective_group_size() > 1) {
    return absl::UnimplementedError(
        absl::StrCat("offload: weight_transfer \"allgather\" over ",
                     config.effective_group_size(),
                     " ranks is not supported; \"rank-local\" is"));
  }
  return OffloadBackendChoice{
      std::make_unique<PlacementBackend>(platform, config, std::move(options)),
      ""};
}

}  // namespace ferry
