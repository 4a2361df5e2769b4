#include "server/worker/queue_observer.h"

#include <algorithm>
#include <utility>

namespace ferry {
namespace {

using worker::v1::RunGenerationResponse;

// 4 KiB are left for the message's other fields.
constexpr size_t kPieceBytes = (size_t{1} << 20) - (size_t{4} << 10);

}  // namespace

bool QueueObserver::is_cancelled() { return slot_.cancel_requested(); }

void QueueObserver::on_progress(const v1::Progress& progress) {
  slot_.note_progress();
  RunGenerationResponse event;
  *event.mutable_progress() = progress;
  queue_.push(std::move(event));
}

absl::Status QueueObserver::on_preview(v1::Preview preview) {
  RunGenerationResponse event;
  *event.mutable_preview() = std::move(preview);
  queue_.push(std::move(event));
  return absl::OkStatus();
}

absl::Status QueueObserver::on_output(const v1::OutputInfo& info,
                                      std::string data) {
  slot_.note_progress();
  const size_t end = omit_data_ ? 0 : data.size();
  size_t offset = 0;
  do {
    const size_t size = std::min(kPieceBytes, end - offset);
    RunGenerationResponse event;
    v1::OutputChunk& chunk = *event.mutable_output_chunk();
    chunk.set_index(info.index());
    chunk.set_offset(static_cast<int64_t>(offset));
    chunk.set_data(data.data() + offset, size);
    offset += size;
    if (offset == end) *chunk.mutable_final_info() = info;
    queue_.push(std::move(event));
  } while (offset < end);
  return absl::OkStatus();
}

}  // namespace ferry
