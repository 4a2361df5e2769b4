#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "offload/distributed/rank_group.h"
#include "offload/host_memory_left.h"
#include "offload/offload_backend.h"
#include "offload/offload_config.h"
#include "platform/device/platform.h"

namespace ferry {

// What was chosen.
struct OffloadBackendChoice {
  // Null: no offloading; the pipeline runs as it is.
  std::unique_ptr<OffloadBackend> backend;
  // Why there is none, one sentence without its end for the log and the report;
  // a backend gives its own reason when it is enabled.
  std::string reason;
};

// Chooses the backend for a configuration on a platform; the only place that
// knows the implementations. Installs nothing: that is enable()'s business.
// Not asked for, or not supported by the platform: no backend and the reason,
// except that a device that is not the host gets a backend which places all
// weights there.
// UNIMPLEMENTED for parallelism that cannot be run (check_parallel_config.h).
// INVALID_ARGUMENT for AllGather over more ranks than `group` has; it may be
// null where nothing is gathered. `platform` and `group` outlive the backend.
absl::StatusOr<OffloadBackendChoice> get_offload_backend(
    const OffloadConfig& config, Platform& platform,
    HostMemoryQuery host_memory = nullptr, RankGroup* group = nullptr);

}  // namespace ferry
