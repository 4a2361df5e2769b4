#include "offload/distributed/gathered_weights.h"

#include <algorithm>
#include <utility>

#include "absl/memory/memory.h"
#include "offload/image_layout.h"
#include "platform/base/check.h"
#include "platform/base/status_macros.h"
#include "platform/device/host_arena.h"

namespace ferry {
namespace {

// What all gathered rings use together.
struct Slots {
  int count = 0;
  int64_t share_bytes = 0;
};

Slots slots_of(const PlacementPlan& plan, int ranks) {
  Slots slots;
  for (const PlacementPlan::Ring& ring : plan.rings) {
    if (!ring.is_gathered) continue;
    slots.count = std::max(slots.count, ring.options.slots);
    for (const TensorGroup& block : ring.blocks) {
      const int64_t bytes = plan_image(block.tensors).bytes;
      slots.share_bytes =
          std::max(slots.share_bytes, ImageShare{0, ranks}.bytes(bytes));
    }
  }
  return slots;
}

}  // namespace

int64_t GatheredWeights::device_bytes(const PlacementPlan& plan, int ranks) {
  FERRY_CHECK_GE(ranks, 1);
  const Slots slots = slots_of(plan, ranks);
  return PassEngine::device_bytes(slots.count, ranks, slots.share_bytes);
}

absl::StatusOr<std::unique_ptr<GatheredWeights>> GatheredWeights::reserve(
    Device& device, c10::Device torch_device, RankGroup& group,
    const PlacementPlan& plan) {
  auto weights =
      absl::WrapUnique(new GatheredWeights(device, torch_device, group));
  const Slots slots = slots_of(plan, group.size());
  ASSIGN_OR_RETURN(
      weights->engine_,
      PassEngine::create(device, group, slots.count, slots.share_bytes));
  return weights;
}

absl::Status GatheredWeights::attach(const PlacementPlan::Ring& ring) {
  rings_.push_back({ring.options.name, {}});
  // An image whose tensors are attached must not be lost.
  rings_.back().images.reserve(ring.blocks.size());
  for (const TensorGroup& block : ring.blocks) {
    ASSIGN_OR_RETURN(auto image,
                     BlockImage::pack(device_, torch_device_, block,
                                      {group_.rank(), group_.size()}));
    image->attach();
    rings_.back().images.push_back(std::move(image));
  }
  return absl::OkStatus();
}

absl::Status GatheredWeights::start() {
  std::vector<PassEngine::Ring> rings;
  for (const Ring& ring : rings_) {
    rings.push_back({ring.name, {}});
    for (const auto& image : ring.images) {
      rings.back().blocks.push_back(image.get());
    }
  }
  return engine_->start(std::move(rings));
}

absl::Status GatheredWeights::release() {
  RETURN_IF_ERROR(engine_->leave());
  // The transport thread may have begun copies until it left. Only that nothing
  // runs counts.
  (void)device_.synchronize();
  while (!rings_.empty()) {
    auto& images = rings_.back().images;
    while (!images.empty()) {
      RETURN_IF_ERROR(release(*images.back()));
      images.pop_back();
    }
    rings_.pop_back();
  }
  return absl::OkStatus();
}

absl::Status GatheredWeights::release(BlockImage& image) {
  ASSIGN_OR_RETURN(HostArena whole, device_.allocate_host(
                                        image.gathered_bytes(), image.owner()));
  ASSIGN_OR_RETURN(HostAccess target,
                   whole.access(AccessKind::kWrite, 0, image.gathered_bytes()));
  ASSIGN_OR_RETURN(HostAccess share, image.read_host());
  RETURN_IF_ERROR(group_.control->all_gather(
      share.data(), target.data(), image.host_bytes(), group_.timeout));
  RETURN_IF_ERROR(share.end());
  RETURN_IF_ERROR(target.end());
  return image.release(std::move(whole));
}

void GatheredWeights::add_stats(OffloadStats* sum) const {
  for (const Ring& ring : rings_) {
    for (const auto& image : ring.images) {
      sum->streamed_bytes += image->bytes();
      sum->host_bytes += image->host_bytes();
    }
  }
  const PassEngine::Stats stats = engine_->stats();
  sum->slots = std::max(sum->slots, engine_->slots());
  sum->h2d_bytes += stats.h2d_bytes;
  sum->gathered_bytes += stats.gathered_bytes;
  sum->exposed_stall += stats.exposed_stall;
  sum->first_block_stall += stats.first_block_stall;
  sum->timed_h2d_bytes += stats.timed_h2d_bytes;
  sum->h2d_time += stats.h2d_time;
  sum->cloned_outputs += stats.cloned_outputs;
}

}  // namespace ferry
