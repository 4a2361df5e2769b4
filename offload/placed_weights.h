#pragma once

#include <c10/core/Device.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "offload/block_image.h"
#include "offload/block_ring.h"
#include "offload/distributed/gathered_weights.h"
#include "offload/distributed/pass_engine.h"
#include "offload/distributed/rank_group.h"
#include "offload/distributed/shared_images.h"
#include "offload/hook_registry.h"
#include "offload/model_hook.h"
#include "offload/offload_backend.h"
#include "offload/placement_plan.h"
#include "offload/tensor_group.h"
#include "offload/written_state.h"
#include "platform/device/device.h"
#include "platform/device/device_arena.h"
#include "platform/device/platform.h"
#include "platform/device/stream.h"
#include "platform/device/stream_lease.h"

namespace ferry {

// Holds the state of a pipeline in images and device memory, with the rings
// and hooks that ferry it; what the backends have in common.
//
//   empty ──place() OK──► placed ──take_down() OK──► empty
//     │                     └─take_down() error─► taking down ──take_down()──►
//     └─place() error─► empty, or taking down if that failed too
//
// Taking down, some tensors may be attached still, and hooks may be left; only
// take_down() is legal.
//
// Of rings that are gathered a rank has a share. To make ordinary tensors of
// them takes the whole group: all ranks take down together, while none runs a
// generation. A rank that cannot wait for the others abandons its share:
//
//   placed, or in the middle of place() ──abandon()──► lost
//
// The blocks' tensors have no values then, and the pipeline must be loaded
// again. So does place() when it fails after the first block was attached, and
// the destructor.
//
// Images that several ranks read are lost in the same way when they are
// abandoned: each rank would need a copy of its own.
//
// Ownership: a backend owns it; the platform, the module and the group outlive
//   it.
// Threads: not thread-safe; confined to the worker's step thread.
class PlacedWeights {
 public:
  // `hook_prefix` starts the names of all its hooks. `group` may be null where
  // nothing is gathered. REQUIRES: the platform supports CPU offload.
  PlacedWeights(Platform& platform, std::string hook_prefix,
                RankGroup* group = nullptr);
  // Takes down what is placed, as well as it can.
  ~PlacedWeights();
  PlacedWeights(const PlacedWeights&) = delete;
  PlacedWeights& operator=(const PlacedWeights&) = delete;

  // Reserves device memory, packs the images, copies what is resident, fills
  // the rings and adds the hooks. On an error the tensors are ordinary ones
  // again and no hook is left. RESOURCE_EXHAUSTED says how much memory is
  // needed; then nothing was touched. What is no rank's own lies in `shared`,
  // which may be null, and is not used after the call.
  absl::Status place(const PlacementPlan& plan, SharedImages* shared = nullptr);
  // Removes the hooks, makes ordinary tensors, frees the device memory. After
  // an error it can be called again.
  absl::Status take_down();
  // As well as it can, without the group.
  void abandon();
  bool is_empty() const { return stage_ == Stage::kEmpty; }

  OffloadStats stats() const;
  // Null where nothing is gathered.
  PassEngine* engine() const {
    return gathered_ == nullptr ? nullptr : &gathered_->engine();
  }

 private:
  enum class Stage { kEmpty, kPlaced, kTakingDown };

  struct Resident {
    // Null until its tensors are attached.
    std::unique_ptr<BlockImage> image;
    // Bytes of resident_memory_.
    char* data = nullptr;
  };
  struct Ring {
    std::vector<std::unique_ptr<BlockImage>> images;
    std::unique_ptr<BlockRing> ring;
  };
  struct InstalledHook {
    HookRegistry* registry = nullptr;
    std::string name;
  };

  absl::Status do_place(const PlacementPlan& plan, SharedImages* shared);
  absl::Status do_take_down();
  absl::Status reserve(const PlacementPlan& plan);
  absl::Status check_memory(const PlacementPlan& plan);
  bool has_shares() const {
    return has_shared_images_ ||
           (gathered_ != nullptr && gathered_->is_attached());
  }
  // What an arena of so many bytes takes.
  int64_t rounded(int64_t bytes) const;
  absl::Status reserve_residents(const PlacementPlan& plan);
  absl::Status reserve_ring(const PlacementPlan::Ring& plan);
  // For the next ring.
  absl::StatusOr<Stream> ring_stream();
  absl::Status reserve_gathered(const PlacementPlan& plan);
  absl::Status attach_all(const PlacementPlan& plan, SharedImages* shared);
  absl::StatusOr<std::unique_ptr<BlockImage>> attach(const TensorGroup& group,
                                                     SharedImages* shared);
  absl::Status load_residents();
  // Copies an image of what is resident.
  absl::Status load(char* data, const char* host_data, int64_t bytes);
  absl::Status start_rings();
  absl::Status add_hooks(const PlacementPlan& plan);
  absl::Status add_ring_hooks(const PlacementPlan& plan);
  absl::Status add_hook(HookRegistry* registry,
                        std::unique_ptr<ModelHook> hook);

  absl::Status remove_hooks();
  absl::Status release_images();
  absl::Status release(std::unique_ptr<BlockImage>* image);
  absl::Status free_memory();

  Device& device_;
  const c10::Device torch_device_;
  const std::string hook_prefix_;
  RankGroup* const group_;

  Stage stage_ = Stage::kEmpty;
  // Of what is resident.
  StreamLease copy_stream_;
  DeviceArena resident_memory_;
  std::vector<Resident> residents_;
  // The module's, while it is packed, and its bytes of resident_memory_.
  WrittenState* written_ = nullptr;
  char* written_data_ = nullptr;
  // Of the rings, which need no order between them: each has one of its own,
  // where they are few, else they take turns.
  std::vector<StreamLease> ring_streams_;
  std::vector<Ring> rings_;
  // Null where nothing is gathered.
  std::unique_ptr<GatheredWeights> gathered_;
  // Some image is read by other ranks too.
  bool has_shared_images_ = false;
  // Bytes of those that another rank wrote.
  int64_t borrowed_bytes_ = 0;
  // What was shared was abandoned.
  bool is_lost_ = false;
  std::vector<InstalledHook> hooks_;
};

}  // namespace ferry
