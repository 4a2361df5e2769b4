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

// The largest request that a package allows, tried when its weights were
// placed.
struct LargestRequest {
  // Device memory that it took beside them; 0: it was not measured.
  int64_t bytes = 0;
  // What operators should know of it; empty: nothing.
  std::string note;
};

// What offloading does for a pipeline, as operators see it. Without a backend
// every component is resident.
v1::OffloadReport make_offload_report(const OffloadableModule& module,
                                      const OffloadConfig& config,
                                      const OffloadBackendChoice& choice,
                                      Platform& platform,
                                      const LargestRequest& largest = {});

}  // namespace ferry
