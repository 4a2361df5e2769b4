#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ferry/worker/v1/worker_service.pb.h"
#include "offload/distributed/rank_group.h"
#include "platform/device/platform.h"
#include "platform/distributed/gloo/gloo_options.h"
#include "platform/distributed/nccl/nccl_api.h"
#include "platform/distributed/store.h"
#include "platform/distributed/tcp_store/tcp_store.h"
#include "platform/os/host_port.h"
#include "server/worker/rank_recorders.h"

namespace ferry {

// A rank's membership in its worker group, in one generation of it. Ranks meet
// at the store that rank 0 keeps, under the incarnation's prefix, and are
// joined twice: for votes by Gloo; for weights, if they gather any, by NCCL
// between GPUs, by Gloo between simulated devices. Those that gather, or may,
// are joined by Gloo once more, to find out whether they can, and shall. Those
// that may are joined for weights when one of them has something to gather
// (RankGroup::join_devices): ranks whose weights all fit never are.
//
// Whether their devices can be joined is the same for all ranks where they may
// do without.
//
// Each of them has a recorder, "votes", "weights" and "choice", whose first
// operation is to join.
//
// Ownership: refers to the platform and the recorders, which outlive it.
// Threads: as its parts say.
class JoinedGroup {
 public:
  // Whether ranks gather weights.
  enum class Gathers { kNever, kMaybe, kAlways };

  // Blocks until all ranks have joined. What is left for later has the same
  // errors, and refers to the platform and the recorders until then. Errors:
  // those of the store and the communicators; INVALID_ARGUMENT, the request
  // says nowhere to meet; UNIMPLEMENTED, a platform whose devices cannot be
  // joined.
  static absl::StatusOr<std::unique_ptr<JoinedGroup>> join(
      const worker::v1::LoadPipelineRequest& request, Platform& platform,
      RankRecorders& recorders, Gathers gathers);

  RankGroup& ranks() { return ranks_; }
  // The error that ended it.
  absl::Status status() const;

 private:
  JoinedGroup(int rank, int size, RankRecorders& recorders)
      : rank_(rank), size_(size), recorders_(recorders) {}

  // Meets the others at the store, which it returns.
  absl::StatusOr<std::unique_ptr<TcpStore>> join_votes(
      const worker::v1::Rendezvous& meeting, const HostPort& address,
      const GlooOptions& gloo);
  absl::Status join_devices(Platform& platform, Store& store,
                            const GlooOptions& gloo);
  // For weights, and for the choice.
  absl::Status join_gathering(Platform& platform, Store& store,
                              const std::string& incarnation,
                              const GlooOptions& gloo, Gathers gathers);
  // Does without them everywhere if they could not be joined somewhere.
  absl::Status agree_on_devices(const absl::Status& joined);
  absl::Status join_choice(Store& store, const GlooOptions& gloo);

  const int rank_;
  const int size_;
  RankRecorders& recorders_;
  // Null but on rank 0.
  std::unique_ptr<TcpStoreServer> server_;
  // Null but between GPUs.
  std::unique_ptr<NcclApi> nccl_;
  RankGroup ranks_;
};

}  // namespace ferry
