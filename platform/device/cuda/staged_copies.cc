#include "platform/device/cuda/staged_copies.h"

#include <algorithm>
#include <cstring>
#include <iterator>

#include "platform/base/check.h"
#include "platform/base/status_macros.h"

namespace ferry {

StagedCopies::StagedCopies(CudaApi* api, CudaErrors* errors,
                           int64_t buffer_bytes)
    : api_(*api), errors_(*errors), buffer_bytes_(buffer_bytes) {}

StagedCopies::~StagedCopies() {
  MutexLock lock(&mutex_);
  destroy();
}

absl::Status StagedCopies::make_buffers() {
  RETURN_IF_ERROR(errors_.check(api_.stream_create_with_priority(
                                    &staging_stream_, cudaStreamNonBlocking, 0),
                                "cudaStreamCreateWithPriority"));
  const auto make_event = [this](cudaEvent_t* event) {
    return errors_.check(
        api_.event_create_with_flags(
            event, cudaEventBlockingSync | cudaEventDisableTiming),
        "cudaEventCreateWithFlags");
  };
  RETURN_IF_ERROR(make_event(&start_));
  for (Buffer& buffer : buffers_) {
    RETURN_IF_ERROR(errors_.check(
        api_.host_alloc(&buffer.data, static_cast<size_t>(buffer_bytes_),
                        cudaHostAllocDefault),
        "cudaHostAlloc of a staging buffer"));
    RETURN_IF_ERROR(make_event(&buffer.full));
    RETURN_IF_ERROR(make_event(&buffer.empty));
  }
  return absl::OkStatus();
}

// Gives back what there is; a device that failed may refuse it.
void StagedCopies::destroy() {
  if (staging_stream_ != nullptr) {
    (void)errors_.check(api_.stream_synchronize(staging_stream_),
                        "cudaStreamSynchronize");
  }
  const auto destroy_event = [this](cudaEvent_t* event) {
    if (*event == nullptr) return;
    (void)errors_.check(api_.event_destroy(*event), "cudaEventDestroy");
    *event = nullptr;
  };
  for (Buffer& buffer : buffers_) {
    // What is sent from it is on another stream.
    if (buffer.was_used) {
      (void)errors_.check(api_.event_synchronize(buffer.empty),
                          "cudaEventSynchronize");
    }
    if (buffer.data != nullptr) {
      (void)errors_.check(api_.free_host(buffer.data), "cudaFreeHost");
    }
    destroy_event(&buffer.full);
    destroy_event(&buffer.empty);
    buffer = Buffer();
  }
  destroy_event(&start_);
  if (staging_stream_ != nullptr) {
    (void)errors_.check(api_.stream_destroy(staging_stream_),
                        "cudaStreamDestroy");
    staging_stream_ = nullptr;
  }
  is_made_ = false;
}

absl::Status StagedCopies::copy(cudaStream_t stream, const Copy& copy,
                                bool blocks) {
  FERRY_CHECK_NE(copy.kind, CopyKind::kDeviceToDevice);
  MutexLock lock(&mutex_);
  if (!is_made_) {
    const absl::Status made = make_buffers();
    if (!made.ok()) {
      destroy();
      return made;
    }
    is_made_ = true;
  }
  Buffer* last = nullptr;
  const absl::Status status = enqueue(stream, copy, &last);
  if (!status.ok()) {
    drain(stream);
    return status;
  }
  if (!blocks) return absl::OkStatus();
  const bool reads_host = copy.kind == CopyKind::kHostToDevice;
  return errors_.check(
      api_.event_synchronize(reads_host ? last->full : last->empty),
      "cudaEventSynchronize");
}

// After an error events may not say what was enqueued. Nothing may touch the
// host's side, or a buffer, when the caller has the error.
void StagedCopies::drain(cudaStream_t stream) {
  for (const cudaStream_t each : {stream, staging_stream_}) {
    (void)errors_.check(api_.stream_synchronize(each), "cudaStreamSynchronize");
  }
  for (Buffer& buffer : buffers_) buffer.was_used = false;
}

absl::Status StagedCopies::enqueue(cudaStream_t stream, const Copy& copy,
                                   Buffer** last) {
  const bool reads_host = copy.kind == CopyKind::kHostToDevice;
  if (reads_host) {
    RETURN_IF_ERROR(record(start_, stream));
    RETURN_IF_ERROR(wait(staging_stream_, start_));
  }
  for (int64_t done = 0; done < copy.bytes;) {
    Copy piece = copy;
    piece.source = static_cast<const char*>(copy.source) + done;
    piece.destination = static_cast<char*>(copy.destination) + done;
    piece.bytes = std::min(buffer_bytes_, copy.bytes - done);
    Buffer* const buffer = &buffers_[next_buffer_];
    RETURN_IF_ERROR(reads_host ? send(stream, piece, buffer)
                               : receive(stream, piece, buffer));
    next_buffer_ = 1 - next_buffer_;
    *last = buffer;
    done += piece.bytes;
  }
  // Two buffers are emptied in order: after the last one, all is there.
  return reads_host ? absl::OkStatus() : wait(stream, (*last)->empty);
}

absl::Status StagedCopies::send(cudaStream_t stream, const Copy& piece,
                                Buffer* buffer) {
  if (buffer->was_used) {
    RETURN_IF_ERROR(wait(staging_stream_, buffer->empty));
  }
  RETURN_IF_ERROR(copy_on_host(buffer->data, piece.source, piece.bytes));
  RETURN_IF_ERROR(record(buffer->full, staging_stream_));
  RETURN_IF_ERROR(wait(stream, buffer->full));
  RETURN_IF_ERROR(
      errors_.check(api_.memcpy_async(piece.destination, buffer->data,
                                      static_cast<size_t>(piece.bytes),
                                      cudaMemcpyHostToDevice, stream),
                    "cudaMemcpyAsync"));
  RETURN_IF_ERROR(record(buffer->empty, stream));
  buffer->was_used = true;
  return absl::OkStatus();
}

absl::Status StagedCopies::receive(cudaStream_t stream, const Copy& piece,
                                   Buffer* buffer) {
  if (buffer->was_used) RETURN_IF_ERROR(wait(stream, buffer->empty));
  RETURN_IF_ERROR(
      errors_.check(api_.memcpy_async(buffer->data, piece.source,
                                      static_cast<size_t>(piece.bytes),
                                      cudaMemcpyDeviceToHost, stream),
                    "cudaMemcpyAsync"));
  RETURN_IF_ERROR(record(buffer->full, stream));
  RETURN_IF_ERROR(wait(staging_stream_, buffer->full));
  RETURN_IF_ERROR(copy_on_host(piece.destination, buffer->data, piece.bytes));
  RETURN_IF_ERROR(record(buffer->empty, staging_stream_));
  buffer->was_used = true;
  return absl::OkStatus();
}

absl::Status StagedCopies::copy_on_host(void* destination, const void* source,
                                        int64_t bytes) {
  auto free = std::find_if(
      host_copies_.begin(), host_copies_.end(), [](const auto& candidate) {
        return candidate->is_done.load(std::memory_order_acquire);
      });
  if (free == host_copies_.end()) {
    host_copies_.push_back(std::make_unique<HostCopy>());
    free = std::prev(host_copies_.end());
  }
  HostCopy& host_copy = **free;
  host_copy.destination = destination;
  host_copy.source = source;
  host_copy.bytes = static_cast<size_t>(bytes);
  host_copy.is_done.store(false, std::memory_order_relaxed);
  absl::Status status = errors_.check(
      api_.launch_host_func(staging_stream_, run_host_copy, &host_copy),
      "cudaLaunchHostFunc");
  if (!status.ok()) host_copy.is_done.store(true, std::memory_order_relaxed);
  return status;
}

void CUDART_CB StagedCopies::run_host_copy(void* host_copy) {
  HostCopy& copy = *static_cast<HostCopy*>(host_copy);
  std::memcpy(copy.destination, copy.source, copy.bytes);
  copy.is_done.store(true, std::memory_order_release);
}

absl::Status StagedCopies::record(cudaEvent_t event, cudaStream_t stream) {
  return errors_.check(api_.event_record(event, stream), "cudaEventRecord");
}

absl::Status StagedCopies::wait(cudaStream_t stream, cudaEvent_t event) {
  return errors_.check(api_.stream_wait_event(stream, event),
                       "cudaStreamWaitEvent");
}

}  // namespace ferry
