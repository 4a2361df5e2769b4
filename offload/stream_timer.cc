#include "offload/stream_timer.h"

#include <optional>
#include <utility>

#include "platform/base/status_macros.h"

namespace ferry {

absl::StatusOr<StreamTimer> StreamTimer::create(Device& device, size_t pieces) {
  StreamTimer timer;
  timer.device_ = &device;
  for (size_t i = 0; i < pieces; ++i) {
    Piece piece;
    ASSIGN_OR_RETURN(piece.start, device.create_event(/*timed=*/true));
    ASSIGN_OR_RETURN(piece.end, device.create_event(/*timed=*/true));
    timer.pieces_.push_back(std::move(piece));
  }
  return timer;
}

absl::Status StreamTimer::begin(Stream stream) {
  RETURN_IF_ERROR(collect());
  is_open_ = under_way_ < pieces_.size();
  if (!is_open_) return absl::OkStatus();
  Piece& piece = pieces_[(oldest_ + under_way_) % pieces_.size()];
  return device_->record(piece.start, stream);
}

absl::Status StreamTimer::end(Stream stream, int64_t amount) {
  if (!is_open_) return absl::OkStatus();
  is_open_ = false;
  Piece& piece = pieces_[(oldest_ + under_way_) % pieces_.size()];
  RETURN_IF_ERROR(device_->record(piece.end, stream));
  piece.amount = amount;
  ++under_way_;
  return absl::OkStatus();
}

absl::Status StreamTimer::collect() {
  while (under_way_ > 0) {
    const Piece& piece = pieces_[oldest_];
    ASSIGN_OR_RETURN(const std::optional<absl::Duration> elapsed,
                     device_->elapsed(piece.start, piece.end));
    if (!elapsed) break;
    time_ += *elapsed;
    amount_ += piece.amount;
    oldest_ = (oldest_ + 1) % pieces_.size();
    --under_way_;
  }
  return absl::OkStatus();
}

}  // namespace ferry
