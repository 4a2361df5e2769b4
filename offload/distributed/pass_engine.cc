#include "offload/distributed/pass_engine.h"

#include <algorithm>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "offload/allocate_on_device.h"
#include "offload/clone_shared_outputs.h"
#include "offload/torch_status.h"
#include "platform/base/check.h"
#include "platform/base/fault_point.h"
#include "platform/base/logging.h"
#include "platform/base/status_macros.h"

namespace ferry {
namespace {

// So many blocks the host may be ahead of the device, and all are timed.
constexpr size_t kTimedBlocks = 32;
constexpr size_t kTimedPasses = 4;
// Rings of which one reduction tells who wants them.
constexpr int kVoteBits = 64;

}  // namespace

absl::StatusOr<std::unique_ptr<PassEngine>> PassEngine::create(
    Device& device, RankGroup& group, int slots, int64_t share_bytes) {
  auto engine = absl::WrapUnique(new PassEngine(device, group));
  RETURN_IF_ERROR(engine->reserve(slots, share_bytes));
  return engine;
}

absl::Status PassEngine::reserve(int slots, int64_t share_bytes) {
  const int64_t gathered_bytes = group_.size() * share_bytes;
  ASSIGN_OR_RETURN(memory_,
                   allocate_on_device(
                       device_, device_bytes(slots, group_.size(), share_bytes),
                       "slots of gathered blocks"));
  char* data = memory_.data();
  for (int i = 0; i < slots; ++i) {
    Slot slot;
    slot.data = std::exchange(data, data + gathered_bytes);
    ASSIGN_OR_RETURN(slot.ready, device_.create_event(/*timed=*/false));
    ASSIGN_OR_RETURN(slot.last_use, device_.create_event(/*timed=*/false));
    slots_.push_back(std::move(slot));
  }
  RETURN_IF_ERROR(shares_.reserve(data, share_bytes));
  ASSIGN_OR_RETURN(gather_stream_,
                   device_.acquire_stream(StreamKind::kTransfer, "gathers"));
  ASSIGN_OR_RETURN(first_waits_, StreamTimer::create(device_, kTimedPasses));
  ASSIGN_OR_RETURN(waits_, StreamTimer::create(device_, kTimedBlocks));
  return absl::OkStatus();
}

PassEngine::~PassEngine() {
  stop();
  // Only that nothing runs counts.
  (void)device_.synchronize();
}

absl::Status PassEngine::start(std::vector<Ring> rings) {
  FERRY_CHECK(rings_.empty());
  rings_ = std::move(rings);
  predictor_ = PassPredictor(rings_.size());
  std::vector<int> blocks;
  for (const Ring& ring : rings_) {
    blocks.push_back(static_cast<int>(ring.blocks.size()));
  }
  MutexLock lock(&mutex_);
  protocol_ = PassProtocol(std::move(blocks), slots());
  try {
    transport_ = std::thread([this] { run(); });
  } catch (const std::system_error& error) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the transport thread: ", error.what()));
  }
  is_started_ = true;
  return absl::OkStatus();
}

void PassEngine::start_wave(int64_t wave) {
  MutexLock lock(&mutex_);
  protocol_.start_wave(wave);
  changed_.notify_all();
}

void PassEngine::set_wave_wanted(WaveWanted wanted) {
  MutexLock lock(&wanted_mutex_);
  wave_wanted_ = std::move(wanted);
}

template <typename Predicate>
absl::Status PassEngine::wait_until(Predicate is_true) {
  while (failure_.ok() && !is_true()) changed_.wait(&mutex_);
  return failure_;
}

absl::Status PassEngine::leave() {
  withdraw();
  {
    MutexLock lock(&mutex_);
    if (!is_started_ || is_stopping_) return failure_;
    RETURN_IF_ERROR(wait_until([this]() REQUIRES_LOCK(mutex_) {
      return protocol_.is_idle() && is_settled_;
    }));
    is_stopping_ = true;
    changed_.notify_all();
  }
  transport_.join();
  return absl::OkStatus();
}

void PassEngine::stop() {
  {
    MutexLock lock(&mutex_);
    if (!is_started_ || is_stopping_) return;
    is_stopping_ = true;
    changed_.notify_all();
  }
  // Ends what the transport thread, or the device, waits for.
  group_.control->abort("the rank leaves the group");
  group_.weights->abort("the rank leaves the group");
  transport_.join();
}

// --- The transport thread

void PassEngine::run() {
  MutexLock lock(&mutex_);
  while (!is_stopping_ && failure_.ok()) {
    const absl::Status status = call_torch("the transport thread", [this] {
      mutex_.assert_held();
      work_once();
    });
    if (!status.ok()) fail(status);
  }
}

void PassEngine::work_once() {
  if (const auto wave = protocol_.take_wave_wanted()) {
    MutexUnlock unlock(&mutex_);
    MutexLock wanted_lock(&wanted_mutex_);
    if (wave_wanted_ != nullptr) wave_wanted_(*wave);
    return;
  }
  const PassProtocol::Work work = protocol_.next();
  switch (work.kind) {
    case PassProtocol::WorkKind::kVote:
      vote();
      return;
    case PassProtocol::WorkKind::kGather:
      gather(work);
      return;
    case PassProtocol::WorkKind::kYield:
      if (!copy_ahead()) yield(work);
      return;
    case PassProtocol::WorkKind::kNothing:
      if (copy_ahead()) return;
      if (!is_settled_ && protocol_.is_idle()) return settle();
      changed_.wait(&mutex_);
      return;
  }
}

void PassEngine::vote() {
  const int64_t passes = protocol_.passes();
  const int mine = protocol_.begin_vote();
  absl::StatusOr<std::vector<int>> wanted;
  {
    MutexUnlock unlock(&mutex_);
    fault_point("pass_vote");
    // That costs no time: the gather that was given last waits for the same
    // copy, and runs while ranks vote.
    const absl::Status copied =
        passes > 0 ? shares_.await_copies() : absl::OkStatus();
    if (copied.ok()) {
      wanted = exchange_wishes(mine);
    } else {
      wanted = copied;
    }
  }
  if (!wanted.ok()) return fail(wanted.status());
  vouched_pass_ = passes;
  // It comes from the other ranks.
  const int rings = protocol_.components();
  if (!wanted->empty() && wanted->back() >= rings) {
    return fail(absl::InternalError(
        absl::StrCat("another rank wants ring ", wanted->back(),
                     ", and this one has ", rings)));
  }
  protocol_.end_vote(*std::move(wanted));
  changed_.notify_all();
}

absl::StatusOr<std::vector<int>> PassEngine::exchange_wishes(int mine) {
  std::vector<int> wanted;
  const auto rings = static_cast<int>(rings_.size());
  for (int first = 0; first < rings; first += kVoteBits) {
    const bool is_here = mine >= first && mine < first + kVoteBits;
    ASSIGN_OR_RETURN(
        const uint64_t bits,
        group_.control->all_reduce_or(
            is_here ? uint64_t{1} << (mine - first) : 0, group_.timeout));
    for (int bit = 0; bit < kVoteBits; ++bit) {
      if ((bits >> bit & 1) != 0) wanted.push_back(first + bit);
    }
  }
  return wanted;
}

void PassEngine::gather(const PassProtocol::Work& work) {
  protocol_.begin_gather();
  is_settled_ = false;
  absl::Status status;
  {
    MutexUnlock unlock(&mutex_);
    status = give_gather(work);
  }
  if (!status.ok()) return fail(status);
  protocol_.end_gather();
  changed_.notify_all();
}

absl::Status PassEngine::give_gather(const PassProtocol::Work& work) {
  const Stream stream = gather_stream_.get();
  const BlockImage& image = image_of(work);
  Slot& slot = slots_[static_cast<size_t>(work.slot)];
  fault_point("pass_gather");
  if (!shares_.is_copied()) RETURN_IF_ERROR(shares_.copy(image));
  if (slot.was_used) RETURN_IF_ERROR(device_.wait(stream, slot.last_use));
  slot.was_used = false;
  RETURN_IF_ERROR(shares_.begin_gather(stream));
  RETURN_IF_ERROR(group_.weights->all_gather(stream, shares_.share(), slot.data,
                                             image.host_bytes()));
  RETURN_IF_ERROR(device_.record(slot.ready, stream));
  RETURN_IF_ERROR(shares_.end_gather(stream));
  return group_.weights->status();
}

bool PassEngine::copy_ahead() {
  const PassProtocol::Work coming = protocol_.coming();
  if (shares_.is_copied() || coming.kind == PassProtocol::WorkKind::kNothing) {
    return false;
  }
  absl::Status status;
  {
    MutexUnlock unlock(&mutex_);
    status = shares_.copy(image_of(coming));
  }
  if (!status.ok()) fail(status);
  return true;
}

void PassEngine::yield(const PassProtocol::Work& work) {
  const int64_t pass = protocol_.passes();
  absl::Status status;
  {
    MutexUnlock unlock(&mutex_);
    status = ask_about_gathers(
        device_.synchronize(slots_[static_cast<size_t>(work.slot)].ready));
  }
  if (!status.ok()) return fail(status);
  protocol_.yield(pass);
  changed_.notify_all();
}

// The next wave's first gather would wait as long.
void PassEngine::settle() {
  absl::Status status;
  {
    MutexUnlock unlock(&mutex_);
    status = ask_about_gathers(shares_.await_gathers());
  }
  if (!status.ok()) return fail(status);
  is_settled_ = true;
  changed_.notify_all();
}

absl::Status PassEngine::ask_about_gathers(const absl::Status& ended) {
  RETURN_IF_ERROR(ended);
  RETURN_IF_ERROR(group_.weights->status());
  return device_.status();
}

void PassEngine::fail(const absl::Status& status) {
  if (!failure_.ok()) return;
  failure_ = absl::Status(
      status.code(), absl::StrCat("rank ", group_.rank(), " of ", group_.size(),
                                  ": ", status.message()));
  if (!is_stopping_) {
    log_warning("the group of ranks has ended",
                {{"error", failure_.ToString()}});
  }
  group_.control->abort(failure_.message());
  group_.weights->abort(failure_.message());
  changed_.notify_all();
}

// --- The step thread

absl::Status PassEngine::pre_forward(size_t ring, size_t block) {
  FERRY_CHECK_LT(ring, rings_.size());
  FERRY_CHECK_LT(block, rings_[ring].blocks.size());
  BlockImage& image = *rings_[ring].blocks[block];
  int slot = PassProtocol::kNone;
  {
    MutexLock lock(&mutex_);
    RETURN_IF_ERROR(failure_);
    RETURN_IF_ERROR(enter_pass(ring));
    const absl::Status wanted = protocol_.want_block(static_cast<int>(block));
    if (!wanted.ok()) {
      return absl::FailedPreconditionError(
          absl::StrCat(image.owner(), ": ", wanted.message(),
                       "; blocks that ranks gather together run once and in "
                       "order (weight_transfer \"rank-local\" allows more)"));
    }
    // Skipped blocks may have freed slots.
    if (protocol_.next().kind != PassProtocol::WorkKind::kNothing) {
      changed_.notify_all();
    }
    RETURN_IF_ERROR(wait_until([this]() REQUIRES_LOCK(mutex_) {
      return protocol_.wanted_slot().has_value();
    }));
    slot = *protocol_.wanted_slot();
    protocol_.begin_use();
  }
  is_bound_ = true;
  bound_slot_ = slot;
  bound_ring_ = ring;
  bound_block_ = block;
  Slot& place = slots_[static_cast<size_t>(slot)];
  RETURN_IF_ERROR(await(place, image, std::exchange(is_first_block_, false)));
  image.bind(place.data);
  return absl::OkStatus();
}

absl::Status PassEngine::enter_pass(size_t ring) {
  if (protocol_.is_granted()) {
    if (bound_ring_ == ring || is_bound_) return absl::OkStatus();
    protocol_.end_pass();
  }
  protocol_.ask(static_cast<int>(ring), predictor_.ask(ring));
  changed_.notify_all();
  RETURN_IF_ERROR(wait_until(
      [this]() REQUIRES_LOCK(mutex_) { return protocol_.is_granted(); }));
  computed_pass_ = protocol_.granted_pass();
  bound_ring_ = ring;
  is_first_block_ = true;
  return absl::OkStatus();
}

absl::Status PassEngine::await(Slot& slot, const BlockImage& image,
                               bool is_first) {
  const Stream compute = device_.current_stream();
  StreamTimer& timer = is_first ? first_waits_ : waits_;
  RETURN_IF_ERROR(timer.begin(compute));
  RETURN_IF_ERROR(device_.wait(compute, slot.ready));
  RETURN_IF_ERROR(timer.end(compute, 1));
  RETURN_IF_ERROR(runs_.begin(compute));
  return device_.mark_access(compute, AccessKind::kRead, slot.data,
                             image.bytes());
}

absl::Status PassEngine::post_forward(ForwardOutput& output) {
  FERRY_CHECK(is_bound_);
  BlockImage& image = bound_image();
  const int64_t clones = clone_shared_outputs(image, output);
  absl::Status status = runs_.end(device_.current_stream(), image.bytes());
  status.Update(release(slots_[static_cast<size_t>(bound_slot_)], image));
  MutexLock lock(&mutex_);
  stats_.cloned_outputs += clones;
  if (!status.ok()) {
    fail(status);
    return status;
  }
  protocol_.end_use();
  changed_.notify_all();
  return absl::OkStatus();
}

absl::Status PassEngine::release(Slot& slot, BlockImage& image) {
  const Stream compute = device_.current_stream();
  image.unbind();
  is_bound_ = false;
  RETURN_IF_ERROR(device_.mark_access(compute, AccessKind::kRead, slot.data,
                                      image.bytes()));
  RETURN_IF_ERROR(device_.discard(compute, slot.data, image.bytes()));
  RETURN_IF_ERROR(device_.record(slot.last_use, compute));
  slot.was_used = true;
  return absl::OkStatus();
}

void PassEngine::end_pass(size_t ring) {
  MutexLock lock(&mutex_);
  if (!protocol_.is_granted() || bound_ring_ != ring || is_bound_) return;
  protocol_.end_pass();
  changed_.notify_all();
}

void PassEngine::withdraw() {
  const bool was_bound = is_bound_;
  absl::Status status;
  if (was_bound) {
    status = release(slots_[static_cast<size_t>(bound_slot_)], bound_image());
  }
  predictor_.end_loop();
  MutexLock lock(&mutex_);
  if (!status.ok()) return fail(status);
  // What failed may be in use for ever.
  if (!failure_.ok()) return;
  if (was_bound) protocol_.end_use();
  protocol_.withdraw();
  changed_.notify_all();
}

absl::Status PassEngine::check() {
  FERRY_CHECK(!is_bound_);
  MutexLock lock(&mutex_);
  RETURN_IF_ERROR(failure_);
  if (vouched_pass_ < computed_pass_) {
    // Another pass may come before the vote, and must not wait for this rank.
    protocol_.withdraw();
    changed_.notify_all();
  }
  RETURN_IF_ERROR(wait_until([this]() REQUIRES_LOCK(mutex_) {
    return vouched_pass_ >= computed_pass_;
  }));
  absl::Status status = group_.control->status();
  status.Update(group_.weights->status());
  if (!status.ok()) fail(status);
  return failure_;
}

absl::Status PassEngine::begin_timing() {
  ASSIGN_OR_RETURN(runs_, StreamTimer::create(device_, kTimedBlocks));
  return absl::OkStatus();
}

PassEngine::Runs PassEngine::end_timing() {
  // A device that failed has said so to those who work with it.
  (void)runs_.collect();
  const Runs runs = {runs_.time(), runs_.amount()};
  runs_ = StreamTimer();
  return runs;
}

PassEngine::Stats PassEngine::stats() {
  // A device that failed has said so to those who work with it.
  (void)first_waits_.collect();
  (void)waits_.collect();
  MutexLock lock(&mutex_);
  Stats stats = stats_;
  stats.first_block_stall = first_waits_.time();
  stats.exposed_stall = first_waits_.time() + waits_.time();
  const ShareCopies::Stats copies = shares_.stats();
  stats.h2d_bytes = copies.h2d_bytes;
  stats.gathered_bytes = copies.gathered_bytes;
  stats.timed_h2d_bytes = copies.timed_h2d_bytes;
  stats.h2d_time = copies.h2d_time;
  return stats;
}

}  // namespace ferry
