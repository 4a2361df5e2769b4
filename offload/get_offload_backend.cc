#include "offload/get_offload_backend.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "offload/check_parallel_config.h"
#include "offload/placement_backend.h"

namespace ferry {
namespace {

// Where a pipeline is when it was loaded.
constexpr absl::string_view kHost = "cpu";

}  // namespace

absl::StatusOr<OffloadBackendChoice> get_offload_backend(
    const OffloadConfig& config, Platform& platform,
    HostMemoryQuery host_memory, RankGroup* group) {
  const absl::Status parallel = check_parallel_config(config.parallel_config());
  if (!parallel.ok()) return parallel;
  PlacementBackendOptions options;
  options.host_memory = std::move(host_memory);
  options.group = group;
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
  const int64_t ranks = group == nullptr ? 1 : group->size();
  if (config.effective_group_size() > 1 &&
      config.effective_group_size() != ranks) {
    return absl::InvalidArgumentError(absl::StrCat(
        "offload: weight_transfer \"allgather\" is over ",
        config.effective_group_size(), " ranks, and the group has ", ranks,
        "; make data_parallel_size equal to the number of ranks"));
  }
  return OffloadBackendChoice{
      std::make_unique<PlacementBackend>(platform, config, std::move(options)),
      ""};
}

}  // namespace ferry
