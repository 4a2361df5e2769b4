#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "offload/block_image.h"
#include "offload/distributed/pass_predictor.h"
#include "offload/distributed/pass_protocol.h"
#include "offload/distributed/rank_group.h"
#include "offload/distributed/share_copies.h"
#include "offload/forward_output.h"
#include "offload/stream_timer.h"
#include "offload/wave_participant.h"
#include "platform/base/mutex.h"
#include "platform/device/device.h"
#include "platform/device/device_arena.h"
#include "platform/device/event.h"
#include "platform/device/stream_lease.h"

namespace ferry {

// Ferries blocks whose host images are cut into shares over a group of ranks:
// each rank copies its share to its device, the devices gather the shares, and
// every rank has the block. Who computes when is PassProtocol's business; this
// gives it a transport thread, streams and events.
//
// Block k of a pass, on the transport thread:
//
//   copy stream     wait gathered[k-2] · copy share k · record copied[k]
//   gather stream   wait last_use of the slot · wait copied[k]
//                   · gather k · record ready[k], gathered[k]
//   compute stream  wait ready[k] · bind · run · record last_use · unbind
//
// so that share k+1 is copied while block k is gathered and block k-1 runs. A
// share does not wait for a slot of its block: that of the first one is copied
// as soon as the pass is voted, while the pass before is being computed.
// Shares go through two small slots, blocks through `slots` large ones, which
// all rings use. In the steady state nothing is allocated, and the host does
// not wait for the device; the step thread waits for the host of its rank when
// it is ahead of the transport thread. A rank that does not compute waits for
// it once in a pass, before it gives the pass up. When a wave has ended, the
// transport thread waits for the last gather.
//
// A copy or a gather that fails may end like any other, with bytes that are not
// the block's. So a rank votes when all shares that it sent have arrived on its
// device, and the device says that they did: a vote that has ended vouches for
// the copies of all ranks. For its gathers each rank asks the group: the
// transport thread with each gather and after each wait, who has computed by
// check(), which asks for both.
//
//   created ──start()──► running ──leave(), stop()──► stopped
//                          └─error─► failed: every call says why; stop() is
//                                    left
//
// Ownership: owns its memory and thread; refers to the device, the group and
//   the images, which outlive it.
// Threads: as WaveParticipant; stop() from any thread. All else: the worker's
//   step thread, whose current stream is the compute stream, always the same.
// Errors: FAILED_PRECONDITION, a block that runs again or backwards inside of
//   a pass: this request cannot go on, the next one can. What the group or the
//   device says ends the engine, on this rank and, by way of the group, on all.
class PassEngine final : public WaveParticipant {
 public:
  struct Ring {
    // Names it in errors: transformer.
    std::string name;
    // In the order of a pass; attached and unbound, of one group's shares.
    std::vector<BlockImage*> blocks;
  };
  struct Stats {
    int64_t h2d_bytes = 0;
    int64_t gathered_bytes = 0;
    // As in OffloadStats.
    absl::Duration exposed_stall;
    absl::Duration first_block_stall;
    int64_t timed_h2d_bytes = 0;
    absl::Duration h2d_time;
    int64_t cloned_outputs = 0;
  };
  // What this rank ran.
  struct Runs {
    absl::Duration time;
    // Of the blocks' images.
    int64_t bytes = 0;
  };
  // Of slots for blocks whose shares are of `share_bytes` at most.
  static int64_t device_bytes(int slots, int ranks, int64_t share_bytes) {
    return (int64_t{slots} * ranks + int64_t{ShareCopies::kSlots}) *
           share_bytes;
  }
  // Reserves them.
  static absl::StatusOr<std::unique_ptr<PassEngine>> create(
      Device& device, RankGroup& group, int slots, int64_t share_bytes);
  // Stops, and waits for the device.
  ~PassEngine() override;
  PassEngine(const PassEngine&) = delete;
  PassEngine& operator=(const PassEngine&) = delete;

  // Starts the transport thread. Rings and their order are equal on all ranks.
  // REQUIRES: once.
  absl::Status start(std::vector<Ring> rings) EXCLUDES_LOCK(mutex_);

  void start_wave(int64_t wave) override EXCLUDES_LOCK(mutex_);
  // `wanted` is called on the transport thread.
  void set_wave_wanted(WaveWanted wanted) override EXCLUDES_LOCK(wanted_mutex_);

  // Before block `block` of a ring runs: asks for a pass of the ring unless one
  // is being computed, waits for the block, binds it. REQUIRES: there is such a
  // block.
  absl::Status pre_forward(size_t ring, size_t block) EXCLUDES_LOCK(mutex_);
  // After it ran. REQUIRES: it is bound.
  absl::Status post_forward(ForwardOutput& output) EXCLUDES_LOCK(mutex_);
  // The pass over the ring is over. Without one: nothing.
  void end_pass(size_t ring) EXCLUDES_LOCK(mutex_);
  // The next pass of each ring is the last one of its loop: a hint.
  void begin_last_step() { predictor_.begin_last_step(); }
  // Asks for nothing any more, until the next pre_forward(): a request has
  // ended, or was abandoned.
  void withdraw() EXCLUDES_LOCK(mutex_);

  // Whether all blocks that this rank computed with were what they should be.
  // Blocks until all ranks have voted after its last pass; a prediction is
  // given up for that. An error ends the engine. REQUIRES: nothing is bound.
  absl::Status check() EXCLUDES_LOCK(mutex_);

  // Times the blocks that run on the compute stream from now on, each from when
  // its weights are there. Two events for each block, which otherwise none has.
  absl::Status begin_timing();
  // Those that have ended.
  Runs end_timing();

  // Ends the transport thread when no wave is open and all gathers have ended
  // well. Blocks until then: every rank withdraws and leaves. The group can
  // still be used.
  absl::Status leave() EXCLUDES_LOCK(mutex_);
  // Ends it at once, and with it the group.
  void stop() EXCLUDES_LOCK(mutex_);

  // Whose they are.
  RankGroup& group() const { return group_; }
  Device& device() const { return device_; }
  int64_t device_bytes() const { return memory_.bytes(); }
  int slots() const { return static_cast<int>(slots_.size()); }
  Stats stats() EXCLUDES_LOCK(mutex_);

 private:
  // A handle's owner is told by the protocol: the transport thread from
  // begin_gather() to end_gather(), the step thread from begin_use() to
  // end_use().
  struct Slot {
    char* data = nullptr;
    Event ready;
    Event last_use;
    // Whether last_use is to be waited for.
    bool was_used = false;
  };

  PassEngine(Device& device, RankGroup& group)
      : device_(device), group_(group), shares_(device), protocol_({1}, 1) {}

  absl::Status reserve(int slots, int64_t share_bytes);

  // --- The transport thread

  void run() EXCLUDES_LOCK(mutex_);
  void work_once() REQUIRES_LOCK(mutex_);
  void vote() REQUIRES_LOCK(mutex_);
  // Tells the others which ring this rank wants, or PassProtocol::kNone;
  // returns those that any rank wants, ascending.
  absl::StatusOr<std::vector<int>> exchange_wishes(int mine);
  void gather(const PassProtocol::Work& work) REQUIRES_LOCK(mutex_);
  absl::Status give_gather(const PassProtocol::Work& work);
  // Copies the share of the coming gather, if there is one and that was not
  // done; returns whether it did.
  bool copy_ahead() REQUIRES_LOCK(mutex_);
  void yield(const PassProtocol::Work& work) REQUIRES_LOCK(mutex_);
  // Waits until all gathers have ended, and asks how.
  void settle() REQUIRES_LOCK(mutex_);
  // How the gathers went that have ended when this has.
  absl::Status ask_about_gathers(const absl::Status& ended);
  const BlockImage& image_of(const PassProtocol::Work& work) const {
    return *rings_[static_cast<size_t>(work.component)]
                .blocks[static_cast<size_t>(work.block)];
  }
  void fail(const absl::Status& status) REQUIRES_LOCK(mutex_);

  // --- The step thread

  // Blocks until `is_true`, or the engine has failed.
  template <typename Predicate>
  absl::Status wait_until(Predicate is_true) REQUIRES_LOCK(mutex_);
  absl::Status enter_pass(size_t ring) REQUIRES_LOCK(mutex_);
  absl::Status await(Slot& slot, const BlockImage& image, bool is_first);
  absl::Status release(Slot& slot, BlockImage& image);
  BlockImage& bound_image() const {
    return *rings_[bound_ring_].blocks[bound_block_];
  }

  Device& device_;
  RankGroup& group_;
  // Constant after start().
  std::vector<Ring> rings_;
  StreamLease gather_stream_;
  DeviceArena memory_;
  std::vector<Slot> slots_;
  // The transport thread's.
  ShareCopies shares_;
  std::thread transport_;

  // The step thread's.
  PassPredictor predictor_;
  bool is_bound_ = false;
  int bound_slot_ = PassProtocol::kNone;
  size_t bound_ring_ = 0;
  size_t bound_block_ = 0;
  bool is_first_block_ = false;
  StreamTimer first_waits_;
  StreamTimer waits_;
  // Times nothing but between begin_timing() and end_timing().
  StreamTimer runs_;

  Mutex mutex_;
  // The protocol's state, or what follows, has changed.
  CondVar changed_;
  PassProtocol protocol_ GUARDED_BY(mutex_);
  bool is_started_ GUARDED_BY(mutex_) = false;
  bool is_stopping_ GUARDED_BY(mutex_) = false;
  // No gather was given since the transport thread asked how they ended.
  bool is_settled_ GUARDED_BY(mutex_) = true;
  // Passes whose copies all ranks vouch for; the last one that this rank
  // computed.
  int64_t vouched_pass_ GUARDED_BY(mutex_) = 0;
  int64_t computed_pass_ GUARDED_BY(mutex_) = 0;
  absl::Status failure_ GUARDED_BY(mutex_);
  // Counters only; the timers have the times.
  Stats stats_ GUARDED_BY(mutex_);

  Mutex wanted_mutex_;
  WaveWanted wave_wanted_ GUARDED_BY(wanted_mutex_);
};

}  // namespace ferry
