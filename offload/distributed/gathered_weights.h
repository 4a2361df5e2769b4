#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "offload/block_image.h"
#include "offload/distributed/pass_engine.h"
#include "offload/distributed/rank_group.h"
#include "offload/offload_stats.h"
#include "offload/placement_plan.h"
#include "platform/device/device.h"

namespace ferry {

// A rank's shares of the blocks of all rings that are gathered, and the engine
// that ferries them.
//
//   reserve() → attach(ring)… → start() → … → release(), or the destructor
//
// Ownership: PlacedWeights owns it; device, group and tensors outlive it.
//   Destroyed without release(), the blocks' tensors have no values any more.
// Threads: as PassEngine.
class GatheredWeights {
 public:
  // Device memory for the slots of a plan. REQUIRES: ranks ≥ 1.
  static int64_t device_bytes(const PlacementPlan& plan, int ranks);

  static absl::StatusOr<std::unique_ptr<GatheredWeights>> reserve(
      Device& device, c10::Device torch_device, RankGroup& group,
      const PlacementPlan& plan);

  // Packs this rank's share of each block of a ring and takes the tensors over.
  absl::Status attach(const PlacementPlan::Ring& ring);
  // Whether some block was.
  bool is_attached() const { return !rings_.empty(); }
  absl::Status start();

  // Makes ordinary tensors, on every rank: all ranks call it, and none of them
  // runs a generation. After an error the group is of no use.
  absl::Status release();

  PassEngine& engine() const { return *engine_; }
  // All but device memory.
  void add_stats(OffloadStats* sum) const;

 private:
  struct Ring {
    std::string name;
    std::vector<std::unique_ptr<BlockImage>> images;
  };

  GatheredWeights(Device& device, c10::Device torch_device, RankGroup& group)
      : device_(device), torch_device_(torch_device), group_(group) {}

  absl::Status release(BlockImage& image);

  Device& device_;
  const c10::Device torch_device_;
  RankGroup& group_;
  std::vector<Ring> rings_;
  // Refers to the images.
  std::unique_ptr<PassEngine> engine_;
};

}  // namespace ferry
