#include "offload/distributed/share_copies.h"

#include "platform/base/check.h"
#include "platform/base/status_macros.h"

namespace ferry {
namespace {

// So many copies the host may be ahead of the device, and all are timed.
constexpr size_t kTimedCopies = 32;

}  // namespace

absl::Status ShareCopies::reserve(char* data, int64_t share_bytes) {
  for (Slot& slot : slots_) {
    slot.data = data;
    data += share_bytes;
    ASSIGN_OR_RETURN(slot.copied, device_.create_event(/*timed=*/false));
    ASSIGN_OR_RETURN(slot.gathered, device_.create_event(/*timed=*/false));
  }
  ASSIGN_OR_RETURN(stream_, device_.acquire_stream(StreamKind::kTransfer,
                                                   "shares of weights"));
  MutexLock lock(&mutex_);
  ASSIGN_OR_RETURN(timer_, StreamTimer::create(device_, kTimedCopies));
  return absl::OkStatus();
}

absl::Status ShareCopies::copy(const BlockImage& image) {
  FERRY_CHECK(!is_copied_);
  const Stream stream = stream_.get();
  Slot& slot = slots_[current_];
  if (slot.was_used) RETURN_IF_ERROR(device_.wait(stream, slot.gathered));
  slot.was_used = false;
  {
    MutexLock lock(&mutex_);
    RETURN_IF_ERROR(timer_.begin(stream));
  }
  RETURN_IF_ERROR(
      device_.copy_async(stream, {CopyKind::kHostToDevice, slot.data,
                                  image.host_data(), image.host_bytes()}));
  RETURN_IF_ERROR(device_.record(slot.copied, stream));
  is_copied_ = true;
  MutexLock lock(&mutex_);
  stats_.h2d_bytes += image.host_bytes();
  stats_.gathered_bytes += image.gathered_bytes();
  return timer_.end(stream, image.host_bytes());
}

absl::Status ShareCopies::begin_gather(Stream stream) {
  FERRY_CHECK(is_copied_);
  return device_.wait(stream, slots_[current_].copied);
}

absl::Status ShareCopies::end_gather(Stream stream) {
  FERRY_CHECK(is_copied_);
  Slot& slot = slots_[current_];
  RETURN_IF_ERROR(device_.record(slot.gathered, stream));
  slot.was_used = true;
  current_ = (current_ + 1) % kSlots;
  is_copied_ = false;
  return absl::OkStatus();
}

absl::Status ShareCopies::await_copies() {
  RETURN_IF_ERROR(device_.synchronize(last().copied));
  return device_.status();
}

absl::Status ShareCopies::await_gathers() {
  return device_.synchronize(last().gathered);
}

ShareCopies::Stats ShareCopies::stats() {
  MutexLock lock(&mutex_);
  // A device that failed has said so to those who work with it.
  (void)timer_.collect();
  Stats stats = stats_;
  stats.timed_h2d_bytes = timer_.amount();
  stats.h2d_time = timer_.time();
  return stats;
}

}  // namespace ferry
