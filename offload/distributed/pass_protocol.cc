#include "offload/distributed/pass_protocol.h"

#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "platform/base/check.h"

namespace ferry {

PassProtocol::PassProtocol(std::vector<int> blocks, int slots)
    : blocks_(std::move(blocks)), slots_(static_cast<size_t>(slots)) {
  FERRY_CHECK_GE(slots, 1);
  for (const int count : blocks_) FERRY_CHECK_GE(count, 1);
}

// --- The step thread

void PassProtocol::ask(int component, int prediction) {
  FERRY_CHECK_EQ(step_, Step::kLocal);
  FERRY_CHECK(is_component(component));
  FERRY_CHECK(prediction == kNone || is_component(prediction));
  step_ = Step::kAsking;
  asked_ = component;
  prediction_after_ = prediction;
  prediction_ = kNone;
  if (is_undecided()) {
    if (current() == component) {
      grant();
    } else {
      become_ghost();
    }
  }
  advance();
}

absl::Status PassProtocol::want_block(int block) {
  FERRY_CHECK(is_granted());
  if (in_use_ != kNone) {
    return absl::FailedPreconditionError(
        absl::StrCat("block ", block, " runs inside of block ",
                     slots_[static_cast<size_t>(in_use_)].block));
  }
  if (block < first_needed_) {
    return absl::FailedPreconditionError(
        absl::StrCat("block ", block, " runs again, or after block ",
                     first_needed_ - 1, ", in one pass"));
  }
  first_needed_ = block;
  free_slots(granted_pass_, block);
  return absl::OkStatus();
}

std::optional<int> PassProtocol::wanted_slot() const {
  for (size_t i = 0; i < slots_.size(); ++i) {
    const Slot& slot = slots_[i];
    if (slot.state == SlotState::kLoaded && slot.pass == granted_pass_ &&
        slot.block == first_needed_) {
      return static_cast<int>(i);
    }
  }
  return std::nullopt;
}

void PassProtocol::begin_use() {
  FERRY_CHECK_EQ(in_use_, kNone);
  const std::optional<int> slot = wanted_slot();
  FERRY_CHECK(slot.has_value());
  in_use_ = *slot;
  slots_[static_cast<size_t>(in_use_)].state = SlotState::kInUse;
}

void PassProtocol::end_use() {
  FERRY_CHECK_NE(in_use_, kNone);
  slots_[static_cast<size_t>(in_use_)] = Slot();
  in_use_ = kNone;
  ++first_needed_;
}

void PassProtocol::end_pass() {
  FERRY_CHECK(is_granted());
  FERRY_CHECK_EQ(in_use_, kNone);
  leave_pass();
}

void PassProtocol::leave_pass() {
  step_ = Step::kLocal;
  free_slots(granted_pass_, std::numeric_limits<int>::max());
  if (transport_ == Transport::kPass && role_ == Role::kComputing) {
    role_ = Role::kGhost;
  }
  advance();
}

void PassProtocol::withdraw() {
  FERRY_CHECK_EQ(in_use_, kNone);
  prediction_ = kNone;
  if (step_ == Step::kComputing) leave_pass();
  step_ = Step::kLocal;
  // A request that follows may have it.
  if (is_undecided()) role_ = Role::kOpen;
  advance();
}

// --- The coordinator

void PassProtocol::start_wave(int64_t wave) {
  if (wave <= started_wave_) return;
  started_wave_ = wave;
  if (transport_ == Transport::kIdle) transport_ = Transport::kToVote;
}

std::optional<int64_t> PassProtocol::take_wave_wanted() {
  if (transport_ != Transport::kIdle || step_ != Step::kAsking ||
      wanted_wave_ == started_wave_) {
    return std::nullopt;
  }
  wanted_wave_ = started_wave_;
  return wanted_wave_;
}

// --- The transport thread

PassProtocol::Work PassProtocol::next() const {
  if (transport_ == Transport::kToVote) return {WorkKind::kVote};
  Work work = coming();
  for (size_t i = 0; i < slots_.size() && work.kind != WorkKind::kNothing;
       ++i) {
    if (slots_[i].state != SlotState::kFree) continue;
    work.slot = static_cast<int>(i);
    return work;
  }
  return next_yield();
}

PassProtocol::Work PassProtocol::coming() const {
  if (transport_ != Transport::kPass || filling_ != kNone || is_whole()) {
    return {};
  }
  return {WorkKind::kGather, current(), gathered_, kNone};
}

PassProtocol::Work PassProtocol::next_yield() const {
  if (transport_ != Transport::kPass || filling_ != kNone ||
      role_ != Role::kOpen) {
    return {};
  }
  Work work;
  size_t kept = 0;
  for (size_t i = 0; i < slots_.size(); ++i) {
    if (slots_[i].state != SlotState::kLoaded || slots_[i].pass != pass_) {
      continue;
    }
    ++kept;
    if (slots_[i].block < gathered_ - 1) continue;
    work = {WorkKind::kYield, current(), slots_[i].block, static_cast<int>(i)};
  }
  // Others are free soon: the pass before is still being computed in them.
  if (kept < slots_.size() && !is_whole()) return {};
  return work;
}

int PassProtocol::begin_vote() {
  FERRY_CHECK_EQ(transport_, Transport::kToVote);
  transport_ = Transport::kVoting;
  return step_ == Step::kAsking ? asked_ : prediction_;
}

void PassProtocol::end_vote(std::vector<int> wanted) {
  FERRY_CHECK_EQ(transport_, Transport::kVoting);
  for (const int component : wanted) FERRY_CHECK(is_component(component));
  wanted_ = std::move(wanted);
  wanted_index_ = 0;
  if (!wanted_.empty()) {
    begin_pass();
    return;
  }
  ++ended_wave_;
  transport_ =
      ended_wave_ < started_wave_ ? Transport::kToVote : Transport::kIdle;
}

void PassProtocol::begin_gather() {
  const Work work = next();
  FERRY_CHECK_EQ(work.kind, WorkKind::kGather);
  filling_ = work.slot;
  slots_[static_cast<size_t>(filling_)] = {SlotState::kFilling, pass_,
                                           work.block};
  ++gathered_;
}

void PassProtocol::end_gather() {
  FERRY_CHECK(is_gathering());
  Slot& slot = slots_[static_cast<size_t>(filling_)];
  filling_ = kNone;
  if (is_needed(slot.block)) {
    slot.state = SlotState::kLoaded;
  } else {
    slot = Slot();
  }
  advance();
}

void PassProtocol::yield(int64_t pass) {
  if (transport_ != Transport::kPass || pass != pass_ || role_ != Role::kOpen) {
    return;
  }
  become_ghost();
  advance();
}

void PassProtocol::begin_pass() {
  transport_ = Transport::kPass;
  ++pass_;
  gathered_ = 0;
  if (step_ != Step::kAsking) {
    role_ = prediction_ == current() ? Role::kHeld : Role::kOpen;
  } else if (asked_ == current()) {
    grant();
  } else {
    role_ = Role::kGhost;
  }
}

void PassProtocol::advance() {
  if (transport_ != Transport::kPass || filling_ != kNone || is_undecided() ||
      !is_whole()) {
    return;
  }
  ++wanted_index_;
  if (wanted_index_ < wanted_.size()) {
    begin_pass();
  } else {
    transport_ = Transport::kToVote;
  }
}

void PassProtocol::grant() {
  step_ = Step::kComputing;
  role_ = Role::kComputing;
  prediction_ = prediction_after_;
  granted_pass_ = pass_;
  first_needed_ = 0;
}

void PassProtocol::become_ghost() {
  role_ = Role::kGhost;
  free_slots(pass_, std::numeric_limits<int>::max());
}

void PassProtocol::free_slots(int64_t pass, int below_block) {
  for (Slot& slot : slots_) {
    if (slot.state == SlotState::kLoaded && slot.pass == pass &&
        slot.block < below_block) {
      slot = Slot();
    }
  }
}

bool PassProtocol::is_needed(int block) const {
  if (role_ == Role::kHeld || role_ == Role::kOpen) return true;
  return role_ == Role::kComputing && block >= first_needed_;
}

std::string PassProtocol::fingerprint() const {
  std::string text = absl::StrCat(
      static_cast<int>(transport_), ",", started_wave_, ",", ended_wave_, ",",
      wanted_wave_, ",", wanted_index_, ",", pass_, ",",
      static_cast<int>(role_), ",", gathered_, ",", filling_, ",",
      static_cast<int>(step_), ",", asked_, ",", prediction_after_, ",",
      prediction_, ",", granted_pass_, ",", first_needed_, ",", in_use_, ";");
  for (const int component : wanted_) absl::StrAppend(&text, component, ",");
  for (const Slot& slot : slots_) {
    absl::StrAppend(&text, ";", static_cast<int>(slot.state), ",", slot.pass,
                    ",", slot.block);
  }
  return text;
}

}  // namespace ferry
