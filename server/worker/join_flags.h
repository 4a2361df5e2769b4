#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/worker/dial_ferryd.h"

namespace ferry {

// What the command line and the environment say to a worker that ferryd has not
// started.
struct JoinFlags {
  // As they were given; empty, or −1, where they were not.
  std::string rendezvous;
  std::string bind_address;
  std::string pipeline;
  std::string worker_token_file;
  int rank = -1;
  int world_size = -1;
  int device = 0;
  absl::Duration join_timeout = absl::Minutes(10);
  // Of a Kubernetes LeaderWorkerSet, which stand in for rendezvous (with
  // kDefaultWorkerPort), world_size and rank: LWS_LEADER_ADDRESS,
  // LWS_GROUP_SIZE, LWS_WORKER_INDEX.
  std::string leader_address;
  std::string group_size;
  std::string worker_index;
};

// Checks them, and reads the token. INVALID_ARGUMENT names every flag that is
// missing or wrong, one a line.
absl::StatusOr<DialOptions> make_dial_options(const JoinFlags& flags);

}  // namespace ferry
