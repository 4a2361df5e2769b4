#include "offload/block_ring.h"

#include <algorithm>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "offload/allocate_on_device.h"
#include "offload/clone_shared_outputs.h"
#include "platform/base/check.h"
#include "platform/base/status_macros.h"

namespace ferry {
namespace {

// So many blocks the host may be ahead of the device, and all are timed.
constexpr size_t kTimedBlocks = 32;
constexpr size_t kTimedPasses = 4;

}  // namespace

absl::StatusOr<std::unique_ptr<BlockRing>> BlockRing::create(
    Device& device, Stream copy_stream, absl::Span<const int64_t> block_bytes,
    BlockRingOptions options) {
  auto ring =
      absl::WrapUnique(new BlockRing(device, copy_stream, std::move(options)));
  const SlotLayout layout = layout_of(block_bytes, ring->options_);
  ASSIGN_OR_RETURN(
      ring->memory_,
      allocate_on_device(device, layout.bytes(),
                         absl::StrCat("slots of ", ring->options_.name)));
  for (int i = 0; i < layout.slots; ++i) {
    Slot slot;
    slot.region = ring->memory_.data() + layout.region_begin(i);
    slot.region_bytes = layout.region_bytes(i);
    slot.is_at_end = i % 2 == 1;
    ASSIGN_OR_RETURN(slot.ready, device.create_event(/*timed=*/false));
    ring->slots_.push_back(std::move(slot));
  }
  ASSIGN_OR_RETURN(ring->last_use_, device.create_event(/*timed=*/false));
  ASSIGN_OR_RETURN(ring->first_waits_,
                   StreamTimer::create(device, kTimedPasses));
  ASSIGN_OR_RETURN(ring->waits_, StreamTimer::create(device, kTimedBlocks));
  ASSIGN_OR_RETURN(ring->copies_, StreamTimer::create(device, kTimedBlocks));
  return ring;
}

absl::Status BlockRing::start(std::vector<BlockImage*> blocks) {
  FERRY_CHECK(!blocks.empty() && blocks_.empty());
  blocks_ = std::move(blocks);
  missing_.reserve(slots_.size());
  if (!options_.prefetch) return absl::OkStatus();
  look_ahead(blocks_.size() - 1);
  return fetch_missing();
}

absl::Status BlockRing::pre_forward(size_t block) {
  FERRY_CHECK_LT(block, blocks_.size());
  if (needs_recovery_) RETURN_IF_ERROR(recover());
  Slot* slot = find(block);
  if (slot == nullptr) {
    slot = find_victim(block);
    if (slot == nullptr) {
      return absl::FailedPreconditionError(absl::StrCat(
          blocks_[block]->owner(), ": runs inside of other blocks of ",
          options_.name, ", which hold all of its ", slots_.size(), " slots"));
    }
    RETURN_IF_ERROR(fetch(block, *slot));
    ++stats_.demand_fetches;
  }
  RETURN_IF_ERROR(await(*slot));
  blocks_[block]->bind(slot->data);
  slot->in_use = true;
  return absl::OkStatus();
}

absl::Status BlockRing::await(Slot& slot) {
  // Once it has waited, it need not again.
  if (!slot.arrived) RETURN_IF_ERROR(wait_until_ready(slot));
  slot.arrived = true;
  slot.was_used = true;
  return device_.mark_access(device_.current_stream(), AccessKind::kRead,
                             slot.data, blocks_[slot.block]->bytes());
}

absl::Status BlockRing::wait_until_ready(Slot& slot) {
  const Stream compute = device_.current_stream();
  // Without prefetch each block is a component, and its pass begins here.
  const bool is_first = slot.block == 0 || !options_.prefetch;
  StreamTimer& timer = is_first ? first_waits_ : waits_;
  RETURN_IF_ERROR(timer.begin(compute));
  RETURN_IF_ERROR(device_.wait(compute, slot.ready));
  return timer.end(compute, 1);
}

absl::Status BlockRing::post_forward(size_t block, ForwardOutput& output) {
  Slot* const found = find(block);
  FERRY_CHECK(found != nullptr && found->in_use);
  Slot& slot = *found;
  stats_.cloned_outputs += clone_shared_outputs(*blocks_[block], output);
  if (options_.prefetch) {
    look_ahead(block);
  } else {
    slot.kept = true;
  }
  RETURN_IF_ERROR(release(slot));
  if (options_.prefetch) RETURN_IF_ERROR(fetch_missing());
  return absl::OkStatus();
}

absl::Status BlockRing::release(Slot& slot) {
  BlockImage& image = *blocks_[slot.block];
  const Stream compute = device_.current_stream();
  RETURN_IF_ERROR(device_.mark_access(compute, AccessKind::kRead, slot.data,
                                      image.bytes()));
  if (!slot.kept) {
    RETURN_IF_ERROR(device_.discard(compute, slot.data, image.bytes()));
  }
  image.unbind();
  slot.in_use = false;
  if (!slot.kept) slot.block = kNoBlock;
  return absl::OkStatus();
}

absl::Status BlockRing::fetch(size_t block, Slot& slot) {
  Slot* const partner = partner_of(slot);
  if (!fits_beside(block, partner)) partner->block = kNoBlock;
  // What the partner had may lie where the block comes to.
  const bool partner_was_used =
      partner != nullptr && partner->block == kNoBlock && partner->was_used;
  if (slot.was_used || partner_was_used) {
    RETURN_IF_ERROR(device_.record(last_use_, device_.current_stream()));
    RETURN_IF_ERROR(device_.wait(copy_stream_, last_use_));
  }
  slot.was_used = false;
  slot.block = kNoBlock;
  const BlockImage& image = *blocks_[block];
  slot.data = slot.region;
  if (slot.is_at_end) slot.data += slot.region_bytes - image.bytes();
  RETURN_IF_ERROR(copies_.begin(copy_stream_));
  RETURN_IF_ERROR(device_.copy_async(
      copy_stream_,
      {CopyKind::kHostToDevice, slot.data, image.host_data(), image.bytes()}));
  RETURN_IF_ERROR(device_.record(slot.ready, copy_stream_));
  RETURN_IF_ERROR(copies_.end(copy_stream_, image.bytes()));
  slot.block = block;
  slot.arrived = false;
  stats_.h2d_bytes += image.bytes();
  return absl::OkStatus();
}

void BlockRing::look_ahead(size_t last) {
  missing_.clear();
  size_t places = slots_.size();
  for (Slot& slot : slots_) {
    slot.kept = false;
    // The one that has just run is free in a moment.
    if (slot.in_use && slot.block != last) --places;
  }
  for (size_t d = 1; d <= blocks_.size() && places > 0; ++d) {
    const size_t block = (last + d) % blocks_.size();
    Slot* const slot = find(block);
    if (slot == nullptr) {
      missing_.push_back(block);
    } else if (slot->in_use && block != last) {
      continue;
    } else {
      slot->kept = true;
    }
    --places;
  }
}

absl::Status BlockRing::fetch_missing() {
  for (const size_t block : missing_) {
    const auto slot =
        std::find_if(slots_.begin(), slots_.end(), [&](const Slot& candidate) {
          if (candidate.in_use || candidate.kept) return false;
          const Slot* const partner = partner_of(candidate);
          return fits_beside(block, partner) ||
                 (!partner->in_use && !partner->kept);
        });
    // Beside a block that others run inside of: it comes when it is called.
    if (slot == slots_.end()) continue;
    slot->kept = true;
    RETURN_IF_ERROR(fetch(block, *slot));
  }
  return absl::OkStatus();
}

BlockRing::Slot* BlockRing::find(size_t block) {
  for (Slot& slot : slots_) {
    if (slot.block == block) return &slot;
  }
  return nullptr;
}

BlockRing::Slot* BlockRing::partner_of(const Slot& slot) {
  const size_t partner = static_cast<size_t>(&slot - slots_.data()) ^ 1U;
  return partner < slots_.size() ? &slots_[partner] : nullptr;
}

bool BlockRing::fits_beside(size_t block, const Slot* partner) const {
  return partner == nullptr || partner->block == kNoBlock ||
         blocks_[block]->bytes() + blocks_[partner->block]->bytes() <=
             partner->region_bytes;
}

BlockRing::Slot* BlockRing::find_victim(size_t block) {
  Slot* victim = nullptr;
  size_t farthest = 0;
  for (Slot& slot : slots_) {
    if (slot.in_use) continue;
    const Slot* const partner = partner_of(slot);
    const bool fits = fits_beside(block, partner);
    if (!fits && partner->in_use) continue;
    if (fits && slot.block == kNoBlock) return &slot;
    // One whose partner has to go, too, is no better for being empty.
    const size_t needed = slot.block == kNoBlock ? partner->block : slot.block;
    const size_t distance = (needed + blocks_.size() - block) % blocks_.size();
    if (victim == nullptr || distance > farthest) {
      victim = &slot;
      farthest = distance;
    }
  }
  return victim;
}

void BlockRing::reset_state() {
  // Also when it throws.
  needs_recovery_ = true;
  (void)recover();
}

absl::Status BlockRing::recover() {
  for (Slot& slot : slots_) {
    slot.kept = false;
    if (slot.in_use) RETURN_IF_ERROR(release(slot));
  }
  if (options_.prefetch) {
    look_ahead(blocks_.size() - 1);
    RETURN_IF_ERROR(fetch_missing());
  }
  needs_recovery_ = false;
  return absl::OkStatus();
}

BlockRing::Stats BlockRing::stats() {
  // A device that failed has said so to those who work with it.
  for (StreamTimer* timer : {&first_waits_, &waits_, &copies_}) {
    (void)timer->collect();
  }
  Stats stats = stats_;
  stats.first_block_stall = first_waits_.time();
  stats.exposed_stall = first_waits_.time() + waits_.time();
  stats.timed_h2d_bytes = copies_.amount();
  stats.h2d_time = copies_.time();
  return stats;
}

}  // namespace ferry
