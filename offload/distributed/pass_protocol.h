#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "platform/base/check.h"

namespace ferry {

// One rank's part in the agreement about passes.
//
// Ranks that share the weights of a pipeline serve different requests, and yet
// each block that any of them runs is a collective of all. What all make
// together is a *pass*: one walk over the blocks of one component. Each rank
// has a step thread, which runs the model and asks for passes, and a transport
// thread, which votes and gathers; only the latter enters collectives.
//
// Rules:
//
//  1. Passes are voted: each rank says which component it wants, and all ranks
//     carry out a pass of every component that one of them wants, in ascending
//     order. Then they vote again. When nothing is wanted, the wave has ended,
//     and nobody enters a collective.
//  2. A rank that asks while it is idle wants a wave. The coordinator answers
//     all ranks with the next wave's number; waves rise by one, and every rank
//     takes part in at least one vote of every wave. So a start that is late or
//     superfluous is an empty vote.
//  3. A rank votes for what its step thread asks, else for what it *predicted*
//     when it asked for the pass before. The vote is taken when the last block
//     has been given to the device, so that blocks come without a pause.
//     Nothing depends on predictions being right.
//  4. In a pass a rank has a role:
//
//       begin ──asked for─────────────────────────► computing
//         ├─────it asks for another one─────────────► ghost
//         ├─────predicted───────────────────────────► held
//         └─────else────────────────────────────────► open
//       held ───asks for it │ another │ withdraws───► computing │ ghost │ open
//       open ───asks for it │ another or yields─────► computing │ ghost
//       computing ──ended early, or abandoned───────► ghost
//
//     Held, it keeps the blocks that came until its step thread decides. Open,
//     it keeps them while that costs the others nothing: it yields when its
//     slots are full and the device has gathered all of them. So who asks when
//     a pass has just begun computes it, and need not wait for the next one. A
//     ghost gathers as all others do, and gives each block away at once. Every
//     rank gathers every block, whatever its role.
//  5. A gather needs a free slot, and nothing else of this rank; blocks that
//     the step thread skips free theirs. So each rank's gathers depend on its
//     own compute alone.
//
//   transport:  idle ──start_wave──► to vote ──► voting ──► pass … pass ─┐
//                ▲                     ▲           │nothing wanted       │
//                └─────────────────────┼───────────┘                     │
//                                      └─────────────────────────────────┘
//   step:       local ──ask──► asking ──pass begins, or is held──► computing
//                 ▲──withdraw─────┘                                    │
//                 └──end_pass, withdraw────────────────────────────────┘
//
// pass_protocol_model_test.cc runs two and three of these against each other
// through every interleaving: no deadlock, no starvation, equal sequences of
// collectives, every pass that is asked for is made.
//
// A value, without threads or clocks; PassEngine gives it both.
class PassProtocol {
 public:
  static constexpr int kNone = -1;

  enum class WorkKind { kNothing, kVote, kGather, kYield };
  // What the transport thread can do now.
  struct Work {
    WorkKind kind = WorkKind::kNothing;
    // kGather: the component's `block` comes into `slot`. kYield: yield() is
    // due when it is there.
    int component = kNone;
    int block = kNone;
    int slot = kNone;
  };

  // Component c has blocks[c] ≥ 1 blocks; slots ≥ 1. Equal on all ranks.
  PassProtocol(std::vector<int> blocks, int slots);

  // --- The step thread

  // Asks for a pass of `component`, and predicts that it will ask for
  // `prediction`, or kNone, after it. REQUIRES: local.
  void ask(int component, int prediction);
  // Whether the pass that was asked for can be computed.
  bool is_granted() const { return step_ == Step::kComputing; }
  // Which of the passes that is, from 1. REQUIRES: granted.
  int64_t granted_pass() const {
    FERRY_CHECK(is_granted());
    return granted_pass_;
  }
  // The next block that it runs; blocks before it are skipped. Only forwards:
  // FAILED_PRECONDITION, what is left of the pass cannot give it; nothing
  // changes. REQUIRES: granted.
  absl::Status want_block(int block);
  // The slot that has the wanted block, once it is there.
  std::optional<int> wanted_slot() const;
  // It runs, in its slot. REQUIRES: it is there.
  void begin_use();
  // It has run; the slot is free. REQUIRES: begin_use().
  void end_use();
  // The pass has been computed. REQUIRES: granted, and nothing is in use.
  void end_pass();
  // It asks for nothing, predicts nothing, and abandons its pass. REQUIRES:
  // nothing is in use.
  void withdraw();

  // --- The coordinator

  // Starts wave `wave`, and those before it that have not been started.
  void start_wave(int64_t wave);
  // The last wave it has been told of when it wants another one; each once.
  std::optional<int64_t> take_wave_wanted();

  // --- The transport thread

  Work next() const;
  // What next() will be when there is a slot: the pass's next gather, or
  // nothing if it has none.
  Work coming() const;
  // Enters the vote; returns the component that it wants, or kNone. REQUIRES:
  // next() says so.
  int begin_vote();
  // `wanted` has the components that any rank wants, ascending. REQUIRES:
  // begin_vote(), and components they are.
  void end_vote(std::vector<int> wanted);
  // The gather that next() names is being given to the device. REQUIRES: next()
  // says so.
  void begin_gather();
  // It was. REQUIRES: begin_gather().
  void end_gather();
  // Between the two.
  bool is_gathering() const { return filling_ != kNone; }
  // The device has gathered all that the slots can take of pass `pass`: if the
  // step thread still has not said whether it wants it, it is too late now.
  void yield(int64_t pass);

  // Whether no wave is open for it.
  bool is_idle() const { return transport_ == Transport::kIdle; }
  // How many there are.
  int components() const { return static_cast<int>(blocks_.size()); }
  // Passes that have begun: the number of the current one.
  int64_t passes() const { return pass_; }

  // Equal states have equal texts.
  std::string fingerprint() const;

 private:
  enum class Transport { kIdle, kToVote, kVoting, kPass };
  enum class Step { kLocal, kAsking, kComputing };
  enum class Role { kComputing, kHeld, kOpen, kGhost };
  enum class SlotState { kFree, kFilling, kLoaded, kInUse };

  struct Slot {
    SlotState state = SlotState::kFree;
    // Of which pass, and which of its blocks.
    int64_t pass = 0;
    int block = kNone;
  };

  int current() const { return wanted_[wanted_index_]; }
  bool is_whole() const {
    return gathered_ == blocks_[static_cast<size_t>(current())];
  }
  // In a pass that it may yet compute.
  bool is_undecided() const {
    return transport_ == Transport::kPass &&
           (role_ == Role::kHeld || role_ == Role::kOpen);
  }
  bool is_component(int component) const {
    return component >= 0 && component < components();
  }
  void leave_pass();
  Work next_yield() const;
  void begin_pass();
  // Goes on when the pass needs nothing more of this rank.
  void advance();
  void grant();
  // The blocks of the pass that came, and those to come, are not needed.
  void become_ghost();
  void free_slots(int64_t pass, int below_block);
  // Whether the step thread may still run the block of the current pass.
  bool is_needed(int block) const;

  // Constant after construction.
  std::vector<int> blocks_;

  std::vector<Slot> slots_;

  Transport transport_ = Transport::kIdle;
  int64_t started_wave_ = 0;
  int64_t ended_wave_ = 0;
  // The wave that take_wave_wanted() last told.
  int64_t wanted_wave_ = kNone;
  // Components of the last vote.
  std::vector<int> wanted_;
  size_t wanted_index_ = 0;
  // The current pass, its role, and how many of its blocks were gathered, or
  // are being.
  int64_t pass_ = 0;
  Role role_ = Role::kGhost;
  int gathered_ = 0;
  // The slot between begin_gather() and end_gather().
  int filling_ = kNone;

  Step step_ = Step::kLocal;
  // kAsking: for what, and what it predicts for then.
  int asked_ = kNone;
  int prediction_after_ = kNone;
  int prediction_ = kNone;
  // kComputing: the pass, and the first of its blocks that is still needed.
  int64_t granted_pass_ = 0;
  int first_needed_ = 0;
  // The slot in use.
  int in_use_ = kNone;
};

}  // namespace ferry
