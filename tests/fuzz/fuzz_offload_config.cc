#include <google/protobuf/text_format.h>

#include <string>

#include "absl/status/statusor.h"
#include "ferry/worker/v1/worker_service.pb.h"
#include "offload/offload_config.h"
#include "server/worker/offload_settings.h"
#include "tests/fuzz/fuzz_targets.h"

namespace ferry {

// The offload and parallel settings of a load request, as text.
void fuzz_offload_config(absl::string_view input) {
  worker::v1::LoadPipelineRequest request;
  if (!google::protobuf::TextFormat::ParseFromString(std::string(input),
                                                     &request)) {
    return;
  }
  const absl::StatusOr<OffloadConfig> config = make_offload_config(request);
  if (!config.ok()) {
    require(absl::IsInvalidArgument(config.status()), "INVALID_ARGUMENT");
    require(!config.status().message().empty(), "the error says something");
    return;
  }
  require(config->group_size() >= 1 &&
              config->effective_group_size() <= config->group_size(),
          "the group has ranks");
  require(config->resident_layers() >= 0, "resident_layers is a number");
  // The older form may ask for them in vain, which is noted.
  const bool keeps_blocks =
      (config->resident_layers() > 0 && config->notes().empty()) ||
      config->memory_budget_bytes().has_value();
  require(!keeps_blocks || (config->is_distributed() &&
                            !config->uses_allgather(OffloadComponent::kDit) &&
                            config->selects(OffloadComponent::kDit)),
          "blocks stay where that is possible");
  require(!config->any_allgather() || config->is_distributed(),
          "blocks are gathered in a group");
  require(!config->is_automatic() || !config->offload_enabled(),
          "what is to be chosen is not decided");
  const auto again = make_offload_config(request);
  require(again.ok() && again->describe() == config->describe(),
          "it is decided once and for all");
}

}  // namespace ferry
