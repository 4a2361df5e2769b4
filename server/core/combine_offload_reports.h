#pragma once

#include <vector>

#include "ferry/v1/offload_report.pb.h"

namespace ferry {

// What offloading does for a pipeline, of what each of its ranks reports, in
// order of rank. Host bytes and what was done since load are sums over the
// ranks, the rate is their mean; device memory, slots and streamed bytes are
// those of the rank that has most. All else is rank 0's. Empty: an empty one.
v1::OffloadReport combine_offload_reports(
    const std::vector<v1::OffloadReport>& ranks);

}  // namespace ferry
