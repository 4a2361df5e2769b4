#include "offload/offload_stats.h"

namespace ferry {

double OffloadStats::h2d_gbps() const {
  if (h2d_time <= absl::ZeroDuration()) return 0;
  return static_cast<double>(timed_h2d_bytes) /
         absl::ToDoubleNanoseconds(h2d_time);
}

OffloadStats OffloadStats::since(const OffloadStats& before) const {
  OffloadStats result = *this;
  result.h2d_bytes -= before.h2d_bytes;
  result.gathered_bytes -= before.gathered_bytes;
  result.exposed_stall -= before.exposed_stall;
  result.first_block_stall -= before.first_block_stall;
  result.timed_h2d_bytes -= before.timed_h2d_bytes;
  result.h2d_time -= before.h2d_time;
  result.demand_fetches -= before.demand_fetches;
  result.cloned_outputs -= before.cloned_outputs;
  return result;
}

}  // namespace ferry
