#include "offload/placed_weights.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "offload/allocate_on_device.h"
#include "offload/audit_hook.h"
#include "offload/distributed/pass_hooks.h"
#include "offload/image_layout.h"
#include "offload/ring_hook.h"
#include "offload/slot_layout.h"
#include "offload/torch_status.h"
#include "platform/base/check.h"
#include "platform/base/saturating_math.h"
#include "platform/base/status_macros.h"

namespace ferry {
namespace {

// CUDA has no more queues to its hardware by default; more streams would share
// these, and a device may have no more.
constexpr size_t kMaxRingStreams = 8;

int64_t image_bytes(const TensorGroup& group) {
  return plan_image(group.tensors).bytes;
}

int64_t resident_image_bytes(const PlacementPlan& plan) {
  int64_t bytes = plan.written == nullptr ? 0 : plan.written->bytes();
  for (const TensorGroup& group : plan.resident) {
    bytes = saturating_add(bytes, image_bytes(group));
  }
  return bytes;
}

std::vector<int64_t> block_bytes(const PlacementPlan::Ring& ring) {
  std::vector<int64_t> bytes;
  for (const TensorGroup& block : ring.blocks) {
    bytes.push_back(image_bytes(block));
  }
  return bytes;
}

Device& device_of(Platform& platform) {
  FERRY_CHECK(platform.supports_cpu_offload());
  return *platform.device();
}

}  // namespace

PlacedWeights::PlacedWeights(Platform& platform, std::string hook_prefix,
                             RankGroup* group)
    : device_(device_of(platform)),
      torch_device_(platform.torch_device()),
      hook_prefix_(std::move(hook_prefix)),
      group_(group) {}

PlacedWeights::~PlacedWeights() { abandon(); }

void PlacedWeights::abandon() {
  if (is_empty()) return;
  is_lost_ = is_lost_ || has_shares();
  gathered_.reset();
  if (take_down().ok()) return;
  stage_ = Stage::kTakingDown;
  (void)take_down();
}

absl::Status PlacedWeights::place(const PlacementPlan& plan,
                                  SharedImages* shared) {
  if (!is_empty()) {
    return absl::FailedPreconditionError("the weights are placed already");
  }
  if (is_lost_) {
    return absl::FailedPreconditionError(
        "what this rank shared of the weights was given up when its group "
        "failed; load the pipeline again");
  }
  stage_ = Stage::kTakingDown;
  // What LibTorch throws ends like any other error.
  absl::Status status =
      call_torch("place", [&] { return do_place(plan, shared); });
  if (status.ok()) {
    stage_ = Stage::kPlaced;
    return status;
  }
  if (has_shares()) {
    // The others know nothing of it yet: no collective could be matched.
    abandon();
    return status;
  }
  if (const absl::Status rollback = take_down(); !rollback.ok()) {
    return absl::Status(
        status.code(),
        absl::StrCat(status.message(), "; and the tensors could not be given ",
                     "back: ", rollback.message()));
  }
  return status;
}

absl::Status PlacedWeights::do_place(const PlacementPlan& plan,
                                     SharedImages* shared) {
  RETURN_IF_ERROR(reserve(plan));
  RETURN_IF_ERROR(attach_all(plan, shared));
  RETURN_IF_ERROR(load_residents());
  RETURN_IF_ERROR(start_rings());
  return add_hooks(plan);
}

// Device memory first: to lack it is the likeliest error.
absl::Status PlacedWeights::reserve(const PlacementPlan& plan) {
  RETURN_IF_ERROR(check_memory(plan));
  ASSIGN_OR_RETURN(copy_stream_,
                   device_.acquire_stream(StreamKind::kTransfer, "weights"));
  RETURN_IF_ERROR(reserve_residents(plan));
  for (const PlacementPlan::Ring& ring : plan.rings) {
    if (!ring.is_gathered) RETURN_IF_ERROR(reserve_ring(ring));
  }
  return reserve_gathered(plan);
}

absl::Status PlacedWeights::check_memory(const PlacementPlan& plan) {
  const int64_t resident = rounded(resident_image_bytes(plan));
  int64_t slots = 0;
  for (const PlacementPlan::Ring& ring : plan.rings) {
    if (ring.is_gathered) continue;
    const SlotLayout layout =
        BlockRing::layout_of(block_bytes(ring), ring.options);
    slots = saturating_add(slots, rounded(layout.bytes()));
  }
  if (group_ != nullptr) {
    slots = saturating_add(
        slots, rounded(GatheredWeights::device_bytes(plan, group_->size())));
  }
  const int64_t needed = saturating_add(resident, slots);
  ASSIGN_OR_RETURN(MemoryInfo memory, device_.memory_info());
  if (needed > memory.free_bytes) {
    device_.empty_cache();
    ASSIGN_OR_RETURN(memory, device_.memory_info());
  }
  if (needed <= memory.free_bytes) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      "device memory: the weights need ", needed, " bytes (", resident,
      " resident, ", slots, " in slots), and ", memory.free_bytes, " of ",
      memory.total_bytes, " bytes are free"));
}

int64_t PlacedWeights::rounded(int64_t bytes) const {
  return saturating_round_up(bytes, device_.allocation_granularity());
}

absl::Status PlacedWeights::reserve_residents(const PlacementPlan& plan) {
  const int64_t bytes = resident_image_bytes(plan);
  if (bytes == 0) return absl::OkStatus();
  ASSIGN_OR_RETURN(resident_memory_,
                   allocate_on_device(device_, bytes, "resident weights"));
  char* data = resident_memory_.data();
  for (const TensorGroup& group : plan.resident) {
    if (group.tensors.empty()) continue;
    residents_.push_back({nullptr, data});
    data += image_bytes(group);
  }
  written_data_ = data;
  return absl::OkStatus();
}

absl::Status PlacedWeights::reserve_ring(const PlacementPlan::Ring& plan) {
  Ring ring;
  ASSIGN_OR_RETURN(const Stream copy_stream, ring_stream());
  ASSIGN_OR_RETURN(
      ring.ring,
      BlockRing::create(device_, copy_stream, block_bytes(plan), plan.options));
  rings_.push_back(std::move(ring));
  return absl::OkStatus();
}

absl::StatusOr<Stream> PlacedWeights::ring_stream() {
  const size_t index = rings_.size() % kMaxRingStreams;
  if (index == ring_streams_.size()) {
    ASSIGN_OR_RETURN(
        StreamLease stream,
        device_.acquire_stream(StreamKind::kTransfer,
                               absl::StrCat("weights of rings ", index)));
    ring_streams_.push_back(std::move(stream));
  }
  return ring_streams_[index].get();
}

absl::Status PlacedWeights::reserve_gathered(const PlacementPlan& plan) {
  const auto is_gathered = [](const PlacementPlan::Ring& ring) {
    return ring.is_gathered;
  };
  if (std::none_of(plan.rings.begin(), plan.rings.end(), is_gathered)) {
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(gathered_, GatheredWeights::reserve(device_, torch_device_,
                                                       *group_, plan));
  return absl::OkStatus();
}

// One after the other, so that of one image at a time there are two copies.
absl::Status PlacedWeights::attach_all(const PlacementPlan& plan,
                                       SharedImages* shared) {
  auto resident = residents_.begin();
  for (const TensorGroup& group : plan.resident) {
    if (group.tensors.empty()) continue;
    ASSIGN_OR_RETURN((resident++)->image, attach(group, shared));
  }
  if (plan.written != nullptr && !plan.written->is_empty()) {
    RETURN_IF_ERROR(plan.written->pack(device_, torch_device_));
    written_ = plan.written;
  }
  auto ring = rings_.begin();
  for (const PlacementPlan::Ring& planned : plan.rings) {
    if (planned.is_gathered) {
      RETURN_IF_ERROR(gathered_->attach(planned));
      continue;
    }
    // An image whose tensors are attached must not be lost.
    ring->images.reserve(planned.blocks.size());
    for (const TensorGroup& group : planned.blocks) {
      ASSIGN_OR_RETURN(auto image, attach(group, shared));
      ring->images.push_back(std::move(image));
    }
    ++ring;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<BlockImage>> PlacedWeights::attach(
    const TensorGroup& group, SharedImages* shared) {
  absl::StatusOr<std::unique_ptr<BlockImage>> image =
      shared == nullptr
          ? BlockImage::pack(device_, torch_device_, group)
          : BlockImage::pack_shared(device_, torch_device_, group, *shared);
  RETURN_IF_ERROR(image.status());
  (*image)->attach();
  if (shared != nullptr) {
    has_shared_images_ = true;
    if (!shared->writes()) borrowed_bytes_ += (*image)->bytes();
  }
  return image;
}

absl::Status PlacedWeights::load_residents() {
  for (Resident& resident : residents_) {
    RETURN_IF_ERROR(load(resident.data, resident.image->host_data(),
                         resident.image->bytes()));
  }
  if (written_ != nullptr) {
    RETURN_IF_ERROR(
        load(written_data_, written_->host_data(), written_->bytes()));
  }
  RETURN_IF_ERROR(device_.synchronize(copy_stream_.get()));
  RETURN_IF_ERROR(device_.status());
  const Stream compute = device_.current_stream();
  for (Resident& resident : residents_) {
    resident.image->bind(resident.data);
    RETURN_IF_ERROR(device_.mark_access(
        compute, AccessKind::kRead, resident.data, resident.image->bytes()));
  }
  if (written_ == nullptr) return absl::OkStatus();
  written_->bind(written_data_);
  if (written_->bytes() == 0) return absl::OkStatus();
  return device_.mark_access(compute, AccessKind::kWrite, written_data_,
                             written_->bytes());
}

absl::Status PlacedWeights::load(char* data, const char* host_data,
                                 int64_t bytes) {
  if (bytes == 0) return absl::OkStatus();
  return device_.copy_async(copy_stream_.get(),
                            {CopyKind::kHostToDevice, data, host_data, bytes});
}

absl::Status PlacedWeights::start_rings() {
  for (Ring& ring : rings_) {
    std::vector<BlockImage*> images;
    for (const auto& image : ring.images) images.push_back(image.get());
    RETURN_IF_ERROR(ring.ring->start(std::move(images)));
  }
  if (gathered_ == nullptr) return absl::OkStatus();
  return gathered_->start();
}

absl::Status PlacedWeights::add_ring_hooks(const PlacementPlan& plan) {
  const std::string name = absl::StrCat(hook_prefix_, ".ring");
  auto ring = rings_.begin();
  size_t gathered = 0;
  for (const PlacementPlan::Ring& planned : plan.rings) {
    BlockRing* const local =
        planned.is_gathered ? nullptr : (ring++)->ring.get();
    for (size_t b = 0; b < planned.hooks.size(); ++b) {
      std::unique_ptr<ModelHook> hook;
      if (local != nullptr) {
        hook = std::make_unique<RingHook>(name, local, b);
      } else {
        hook = std::make_unique<GatheredBlockHook>(name, engine(), gathered, b);
      }
      RETURN_IF_ERROR(add_hook(planned.hooks[b], std::move(hook)));
    }
    if (local != nullptr) continue;
    RETURN_IF_ERROR(add_hook(planned.component_hooks,
                             std::make_unique<PassEndHook>(
                                 absl::StrCat(hook_prefix_, ".pass.", gathered),
                                 engine(), gathered)));
    ++gathered;
  }
  return absl::OkStatus();
}

absl::Status PlacedWeights::add_hooks(const PlacementPlan& plan) {
  RETURN_IF_ERROR(add_ring_hooks(plan));
  AuditHook::Written written;
  if (written_ != nullptr) written = {written_data_, written_->bytes()};
  // After the rings' hooks: these may bind what is looked at.
  for (const PlacementPlan::Audit& audit : plan.audits) {
    RETURN_IF_ERROR(add_hook(
        audit.hooks,
        std::make_unique<AuditHook>(absl::StrCat(hook_prefix_, ".audit"),
                                    device_, written, audit.tensors)));
  }
  return absl::OkStatus();
}

absl::Status PlacedWeights::add_hook(HookRegistry* registry,
                                     std::unique_ptr<ModelHook> hook) {
  // First, so that no hook is there that nobody removes.
  hooks_.push_back({registry, hook->name()});
  absl::Status added = registry->add(std::move(hook));
  if (!added.ok()) hooks_.pop_back();
  return added;
}

absl::Status PlacedWeights::take_down() {
  if (is_empty()) return absl::OkStatus();
  return call_torch("take down", [this] { return do_take_down(); });
}

absl::Status PlacedWeights::do_take_down() {
  // A module that runs keeps its hooks, and everything stays.
  RETURN_IF_ERROR(remove_hooks());
  // That nothing runs any more is what counts, not how it went: all values are
  // the host's.
  const absl::Status idle = device_.synchronize();
  if (stage_ == Stage::kPlaced) RETURN_IF_ERROR(idle);
  stage_ = Stage::kTakingDown;
  RETURN_IF_ERROR(release_images());
  RETURN_IF_ERROR(free_memory());
  stage_ = Stage::kEmpty;
  return absl::OkStatus();
}

absl::Status PlacedWeights::remove_hooks() {
  while (!hooks_.empty()) {
    const InstalledHook& hook = hooks_.back();
    if (hook.registry->contains(hook.name)) {
      RETURN_IF_ERROR(hook.registry->remove(hook.name));
    }
    hooks_.pop_back();
  }
  return absl::OkStatus();
}

absl::Status PlacedWeights::release_images() {
  if (written_ != nullptr) RETURN_IF_ERROR(written_->release());
  written_ = nullptr;
  for (Resident& resident : residents_) {
    if (resident.image != nullptr) RETURN_IF_ERROR(release(&resident.image));
  }
  for (Ring& ring : rings_) {
    while (!ring.images.empty()) {
      RETURN_IF_ERROR(release(&ring.images.back()));
      ring.images.pop_back();
    }
  }
  return gathered_ == nullptr ? absl::OkStatus() : gathered_->release();
}

absl::Status PlacedWeights::release(std::unique_ptr<BlockImage>* image) {
  if (!is_lost_ || !(*image)->is_shared()) RETURN_IF_ERROR((*image)->release());
  image->reset();
  return absl::OkStatus();
}

// Everything goes, also when the device finds fault with it.
absl::Status PlacedWeights::free_memory() {
  gathered_.reset();
  rings_.clear();
  ring_streams_.clear();
  residents_.clear();
  copy_stream_.reset();
  has_shared_images_ = false;
  borrowed_bytes_ = 0;
  return resident_memory_.free();
}

OffloadStats PlacedWeights::stats() const {
  OffloadStats sum;
  sum.device_bytes = rounded(resident_memory_.bytes());
  for (const Resident& resident : residents_) {
    if (resident.image != nullptr)
      sum.resident_bytes += resident.image->bytes();
  }
  if (written_ != nullptr) {
    sum.resident_bytes += written_->bytes();
    sum.h2d_bytes += written_->reset_bytes();
  }
  for (const Ring& ring : rings_) {
    for (const auto& image : ring.images) sum.streamed_bytes += image->bytes();
    sum.device_bytes += rounded(ring.ring->device_bytes());
    sum.slots = std::max(sum.slots, ring.ring->slots());
    const BlockRing::Stats stats = ring.ring->stats();
    sum.h2d_bytes += stats.h2d_bytes;
    sum.exposed_stall += stats.exposed_stall;
    sum.first_block_stall += stats.first_block_stall;
    sum.timed_h2d_bytes += stats.timed_h2d_bytes;
    sum.h2d_time += stats.h2d_time;
    sum.demand_fetches += stats.demand_fetches;
    sum.cloned_outputs += stats.cloned_outputs;
  }
  sum.host_bytes = sum.resident_bytes + sum.streamed_bytes - borrowed_bytes_;
  if (gathered_ == nullptr) return sum;
  sum.device_bytes += rounded(gathered_->engine().device_bytes());
  gathered_->add_stats(&sum);
  return sum;
}

}  // namespace ferry
