#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/time/time.h"
#include "ferry/v1/pipeline_service.pb.h"
#include "server/ipc/grpc_rank.h"

namespace ferry {

// How to speak to the ranks of a group. May outlive the group: calls fail then.
struct GroupConnections {
  // 0: there is no group.
  int64_t generation = 0;
  // By rank; null while there is none yet.
  std::vector<std::shared_ptr<GrpcRank>> ranks;
};

// What the ranks did together of late. Asks all at the same time, and blocks
// until each has answered, is gone, or `timeout` has passed: who does not
// answer is an error of its own and hides nothing of the others. Thread-safe.
v1::GetFlightRecordsResponse ask_flight_records(const GroupConnections& group,
                                                absl::Duration timeout);

}  // namespace ferry
