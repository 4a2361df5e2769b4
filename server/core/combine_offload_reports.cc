#include "server/core/combine_offload_reports.h"

#include <algorithm>
#include <cstddef>

#include "absl/time/time.h"
#include "server/core/proto_time.h"

namespace ferry {
namespace {

void add(const google::protobuf::Duration& more,
         google::protobuf::Duration* sum) {
  *sum = to_proto(from_proto(*sum).value_or(absl::ZeroDuration()) +
                  from_proto(more).value_or(absl::ZeroDuration()));
}

void add(const v1::OffloadReport& rank, v1::OffloadReport* all) {
  all->set_host_bytes(all->host_bytes() + rank.host_bytes());
  all->set_total_h2d_bytes(all->total_h2d_bytes() + rank.total_h2d_bytes());
  all->set_total_demand_fetches(all->total_demand_fetches() +
                                rank.total_demand_fetches());
  if (rank.has_total_exposed_stall()) {
    add(rank.total_exposed_stall(), all->mutable_total_exposed_stall());
  }
  if (rank.has_total_first_block_stall()) {
    add(rank.total_first_block_stall(), all->mutable_total_first_block_stall());
  }
  all->set_slots(std::max(all->slots(), rank.slots()));
  all->set_resident_bytes(
      std::max(all->resident_bytes(), rank.resident_bytes()));
  all->set_streamed_bytes(
      std::max(all->streamed_bytes(), rank.streamed_bytes()));
  all->set_device_bytes(std::max(all->device_bytes(), rank.device_bytes()));
  all->set_headroom_bytes(
      std::max(all->headroom_bytes(), rank.headroom_bytes()));
  all->set_largest_request_bytes(
      std::max(all->largest_request_bytes(), rank.largest_request_bytes()));
}

// Of those that know it.
double mean_rate(const std::vector<v1::OffloadReport>& ranks) {
  double sum = 0;
  int known = 0;
  for (const v1::OffloadReport& rank : ranks) {
    if (rank.h2d_gbps() <= 0) continue;
    sum += rank.h2d_gbps();
    ++known;
  }
  return known == 0 ? 0 : sum / known;
}

}  // namespace

v1::OffloadReport combine_offload_reports(
    const std::vector<v1::OffloadReport>& ranks) {
  if (ranks.empty()) return {};
  v1::OffloadReport all = ranks[0];
  for (size_t i = 1; i < ranks.size(); ++i) add(ranks[i], &all);
  all.set_h2d_gbps(mean_rate(ranks));
  return all;
}

}  // namespace ferry
