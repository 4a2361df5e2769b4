#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "offload/distributed/rank_group.h"
#include "offload/offload_config.h"
#include "offload/offloadable_module.h"
#include "offload/placement_backend.h"
#include "offload/wave_participant.h"
#include "platform/base/check.h"
#include "platform/base/mutex.h"
#include "platform/device/simulated/simulated_platform.h"

namespace ferry {

// An offload policy, and where it is carried out.
struct RankPolicy {
  // For messages.
  std::string name;
  OffloadConfig config;
  // All blocks of DiTs and encoders are to be streamed, as far as they can.
  bool streams_all = false;
  // Unset: as the backend chooses.
  std::optional<int> slots;
  // Of each device.
  int64_t memory_bytes = int64_t{16} << 20;
  // Of the link of each device.
  double h2d_gbps = 25;
  int ranks = 1;
};

// Ranks of one process, each with a checked simulated device and a backend
// that carries out the same policy. Blocks that the policy gathers go through
// groups of their own.
//
// Ownership: refers to the modules until close(), before which they must not
//   go. Owns the devices, which they must not outlive: their tensors may lie
//   there.
// Threads: to be used by one thread.
class OffloadedRanks {
 public:
  explicit OffloadedRanks(const RankPolicy& policy);
  ~OffloadedRanks();
  OffloadedRanks(const OffloadedRanks&) = delete;
  OffloadedRanks& operator=(const OffloadedRanks&) = delete;

  // One module for each rank. All are enabled, or none is and the first error
  // comes back.
  absl::Status enable(const std::vector<OffloadableModule*>& modules);
  // After enable(), by whoever may gather: calls `run(rank)`, a small request,
  // on a thread for each rank, if what they chose must be tried. True: it is
  // final. False: the modules are to be dropped, and enable() is to be called
  // with others. After an error nothing but close() is left.
  absl::StatusOr<bool> confirm(const std::function<absl::Status(int)>& run)
      EXCLUDES_LOCK(mutex_);
  absl::Status disable();
  // Gives up the backends, enabled or not.
  void close() EXCLUDES_LOCK(mutex_);

  // REQUIRES: not closed; there is such a rank.
  PlacementBackend& backend(int rank) {
    FERRY_CHECK_LT(static_cast<size_t>(rank), ranks_.size());
    FERRY_CHECK(ranks_[static_cast<size_t>(rank)].backend != nullptr);
    return *ranks_[static_cast<size_t>(rank)].backend;
  }
  // What any device found wrong.
  std::vector<std::string> violations();
  // Of all devices.
  int64_t device_bytes_in_use();

 private:
  struct Rank {
    std::unique_ptr<SimulatedPlatform> platform;
    RankGroup group;
    // Uses both.
    std::unique_ptr<PlacementBackend> backend;
  };

  void make_backend(Rank* rank);
  void want_wave(int64_t last_wave) EXCLUDES_LOCK(mutex_);

  const RankPolicy policy_;
  std::vector<Rank> ranks_;

  Mutex mutex_;
  int64_t last_wave_ GUARDED_BY(mutex_) = 0;
  std::vector<WaveParticipant*> participants_ GUARDED_BY(mutex_);
};

}  // namespace ferry
