#pragma once

#include "absl/status/statusor.h"
#include "ferry/worker/v1/worker_service.pb.h"
#include "offload/offload_config.h"

namespace ferry {

// The offload policy that a load request asks for. INVALID_ARGUMENT with every
// violation: those of OffloadConfig::from_od_config(), by the names of the
// configuration file, and sizes whose product is not the number of ranks.
absl::StatusOr<OffloadConfig> make_offload_config(
    const worker::v1::LoadPipelineRequest& request);

}  // namespace ferry
