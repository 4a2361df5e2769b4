#pragma once

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "ferry/worker/v1/worker_service.pb.h"
#include "offload/distributed/rank_group.h"
#include "platform/device/platform.h"
#include "platform/distributed/flight_recorder.h"
#include "platform/distributed/gloo/gloo_options.h"
#include "platform/distributed/nccl/nccl_api.h"
#include "platform/distributed/store.h"
#include "platform/distributed/tcp_store/tcp_store.h"

namespace ferry {

// A rank's membership in its worker group, in one generation of it. Ranks meet
// at the store that rank 0 keeps, under the incarnation's prefix, and are
// joined twice: for votes by Gloo; for weights, if they gather any, by NCCL
// between GPUs, by Gloo between simulated devices.
//
// Whether their devices can be joined is the same for all ranks where they may
// do without.
//
// Ownership: refers to the platform, which outlives it.
// Threads: as its parts say.
class JoinedGroup {
 public:
  // Whether ranks gather weights.
  enum class Gathers { kNever, kMaybe, kAlways };

  // Blocks until all ranks have joined. Errors: those of the store and the
  // communicators; INVALID_ARGUMENT, the request says nowhere to meet;
  // UNIMPLEMENTED, a platform whose devices cannot be joined.
  static absl::StatusOr<std::unique_ptr<JoinedGroup>> join(
      const worker::v1::LoadPipelineRequest& request, Platform& platform,
      Gathers gathers);

  RankGroup& ranks() { return ranks_; }
  // The error that ended it.
  absl::Status status() const;

 private:
  JoinedGroup(int rank, int size);

  absl::Status join_devices(Platform& platform, Store& store, int rank,
                            int size, const GlooOptions& gloo,
                            absl::Duration timeout);
  // Does without them everywhere if they could not be joined somewhere.
  absl::Status agree_on_devices(const absl::Status& joined);

  // Null but on rank 0.
  std::unique_ptr<TcpStoreServer> server_;
  FlightRecorder votes_;
  FlightRecorder gathers_;
  // Null but between GPUs.
  std::unique_ptr<NcclApi> nccl_;
  RankGroup ranks_;
};

}  // namespace ferry
