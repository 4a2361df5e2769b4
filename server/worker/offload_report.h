#pragma once

#include "ferry/v1/job.pb.h"
#include "ferry/v1/offload_report.pb.h"
#include "offload/get_offload_backend.h"
#include "offload/offload_config.h"
#include "offload/offload_stats.h"
#include "offload/offloadable_module.h"
#include "platform/device/platform.h"

namespace ferry {

// What offloading did for one generation.
void add_offload_timings(const OffloadStats& stats, v1::Timings* timings);

// What offloading does for a pipeline, as operators see it. Without a backend
// every component is resident.
v1::OffloadReport make_offload_report(const OffloadableModule& module,
                                      const OffloadConfig& config,
                                      const OffloadBackendChoice& choice,
                                      Platform& platform);

}  // namespace ferry
