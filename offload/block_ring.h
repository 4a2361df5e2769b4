#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "offload/block_image.h"
#include "offload/forward_output.h"
#include "offload/slot_layout.h"
#include "offload/stream_timer.h"
#include "platform/device/device.h"
#include "platform/device/device_arena.h"
#include "platform/device/event.h"
#include "platform/device/stream.h"

namespace ferry {

struct BlockRingOptions {
  // Names the ring in errors: transformer.
  std::string name;
  // Blocks that are on the device at a time; at least 1.
  int slots = 2;
  // Blocks may run inside of others of the ring.
  bool nests = false;
  // Slots hold the blocks that come after the last one that ran. Else a block
  // comes when it is called for, and stays until another needs its slot.
  bool prefetch = true;
};

// Ferries blocks through a few slots of device memory while the device
// computes. Slots have no size of their own: see slot_layout.h.
//
// A slot s, and the events that order its uses:
//
//   free ──fetch(i): record last_use on the compute stream, if its bytes were
//     │              used; the copy stream waits for it, copies, records
//     │              ready[s]
//     ▼
//   loaded(i) ──pre_forward(i): the compute stream waits for ready[s]; bind
//     │
//     ▼
//   used(i) ──post_forward(i): unbind──► free
//
// post_forward(i) then fetches into the free slots the blocks that follow i,
// in the ring's order and around its end: across steps, guidance passes and
// requests. A ring of no more blocks than slots is copied once. A block that
// is not there when it is called (out of order, after skipped ones, after an
// error) is fetched then, and counted. The order of calls changes the time
// that a pass takes, never what it computes.
//
// In the steady state nothing is allocated, the host never waits for the
// device, and nothing is copied back.
//
// Ownership: owns the slots; refers to the images and the device. The device
//   must have done all its work before the ring is destroyed.
// Threads: not thread-safe; confined to the worker's step thread, whose current
//   stream is the compute stream, always the same one.
// Errors: the device's, as they are. After one, reset_state() follows.
class BlockRing {
 public:
  struct Stats {
    int64_t h2d_bytes = 0;
    // As in OffloadStats.
    absl::Duration exposed_stall;
    absl::Duration first_block_stall;
    int64_t timed_h2d_bytes = 0;
    absl::Duration h2d_time;
    // Blocks that were not there, nor on the way, when they were called.
    int64_t demand_fetches = 0;
    // Outputs that were copied because they shared a block's storage.
    int64_t cloned_outputs = 0;
  };

  // Device memory of a ring of such blocks: the bytes of their images, in the
  // order of a pass.
  static SlotLayout layout_of(absl::Span<const int64_t> block_bytes,
                              const BlockRingOptions& options) {
    return plan_slots(block_bytes, options.slots, options.nests);
  }

  // Allocates the slots for such blocks.
  static absl::StatusOr<std::unique_ptr<BlockRing>> create(
      Device& device, Stream copy_stream, absl::Span<const int64_t> block_bytes,
      BlockRingOptions options);

  // Gives it the blocks, in the order of a pass, and fills the slots. The
  // images are attached and unbound. REQUIRES: a block at least; once.
  absl::Status start(std::vector<BlockImage*> blocks);

  // Before block `block` runs: binds it. REQUIRES: there is such a block.
  absl::Status pre_forward(size_t block);
  // After it ran: gives its slot away. REQUIRES: it is bound.
  absl::Status post_forward(size_t block, ForwardOutput& output);
  // After an abandoned pass: every slot is free, the next pass starts at the
  // first block. What fails here is tried again by the next pre_forward().
  void reset_state();

  int64_t device_bytes() const { return memory_.bytes(); }
  int slots() const { return static_cast<int>(slots_.size()); }
  // Of what has ended by now.
  Stats stats();

 private:
  static constexpr size_t kNoBlock = static_cast<size_t>(-1);

  struct Slot {
    // Of memory_: what it shares with its partner, if it has one.
    char* region = nullptr;
    int64_t region_bytes = 0;
    // Its block lies at the region's end.
    bool is_at_end = false;
    // Of its latest block.
    char* data = nullptr;
    Event ready;
    // What it holds, or what is on the way to it.
    size_t block = kNoBlock;
    // Bound: work of the compute stream reads it.
    bool in_use = false;
    // Whether the compute stream has waited for the block.
    bool arrived = false;
    // Whether work of the compute stream may read what a copy would overwrite.
    bool was_used = false;
    // Holds one of the blocks to come.
    bool kept = false;
  };

  BlockRing(Device& device, Stream copy_stream, BlockRingOptions options)
      : device_(device),
        copy_stream_(copy_stream),
        options_(std::move(options)) {}

  Slot* find(size_t block);
  // The slot in the same region; null if there is none.
  Slot* partner_of(const Slot& slot);
  // Whether the block fits beside what the slot's partner holds.
  bool fits_beside(size_t block, const Slot* partner) const;
  // The slot whose block is needed last when `block` runs now, of those that
  // can take it.
  Slot* find_victim(size_t block);
  absl::Status fetch(size_t block, Slot& slot);
  // Makes the compute stream wait for the block.
  absl::Status await(Slot& slot);
  absl::Status wait_until_ready(Slot& slot);
  // Marks the slots to keep when block `last` has run, and lists in missing_
  // the blocks that should come.
  void look_ahead(size_t last);
  absl::Status fetch_missing();
  absl::Status release(Slot& slot);
  absl::Status recover();

  Device& device_;
  const Stream copy_stream_;
  const BlockRingOptions options_;
  std::vector<BlockImage*> blocks_;
  DeviceArena memory_;
  // In the order of SlotLayout.
  std::vector<Slot> slots_;
  Event last_use_;
  std::vector<size_t> missing_;
  bool needs_recovery_ = false;
  // Counters only; the timers have the times.
  Stats stats_;
  // Waits of the compute stream, for first blocks and for others; copies.
  StreamTimer first_waits_;
  StreamTimer waits_;
  StreamTimer copies_;
};

}  // namespace ferry
