// The streams and events of FakeCudaApi.

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "platform/device/cuda/testing/fake_cuda_api.h"

namespace ferry {
namespace {

const char* name_of_kind(cudaMemcpyKind kind) {
  switch (kind) {
    case cudaMemcpyHostToDevice:
      return "h2d";
    case cudaMemcpyDeviceToHost:
      return "d2h";
    default:
      return "d2d";
  }
}

}  // namespace

cudaError_t FakeCudaApi::device_get_stream_priority_range(int* least,
                                                          int* greatest) {
  if (const auto error = enter_device("device_get_stream_priority_range")) {
    return error;
  }
  *least = 0;
  *greatest = -5;
  return cudaSuccess;
}

cudaError_t FakeCudaApi::stream_create_with_priority(cudaStream_t* stream,
                                                     unsigned /*flags*/,
                                                     int priority) {
  if (const auto error = enter_device("stream_create_with_priority",
                                      absl::StrCat("priority ", priority))) {
    return error;
  }
  MutexLock lock(&mutex_);
  auto state = std::make_unique<StreamState>();
  state->number = ++last_stream_;
  state->device = device_of_thread();
  state->priority = priority;
  *stream = reinterpret_cast<cudaStream_t>(state.get());
  streams_.emplace(state->number, std::move(state));
  return cudaSuccess;
}

cudaError_t FakeCudaApi::stream_destroy(cudaStream_t stream) {
  if (const auto error = enter_device("stream_destroy")) return error;
  MutexLock lock(&mutex_);
  StreamState* const state = stream_of(stream);
  if (state == nullptr) return failed(cudaErrorInvalidResourceHandle);
  run_all(state);
  streams_.erase(state->number);
  return cudaSuccess;
}

cudaError_t FakeCudaApi::stream_synchronize(cudaStream_t stream) {
  const std::string name = is_logging() ? name_of(stream) : "";
  if (const auto error = enter_device("stream_synchronize", name)) return error;
  MutexLock lock(&mutex_);
  StreamState* const state = stream_of(stream);
  if (state == nullptr) return failed(cudaErrorInvalidResourceHandle);
  check_wait("stream_synchronize", /*is_blocking_event=*/false);
  run_all(state);
  return cudaSuccess;
}

cudaError_t FakeCudaApi::stream_wait_event(cudaStream_t stream,
                                           cudaEvent_t event) {
  const std::string name = is_logging() ? name_of(stream) : "";
  if (const auto error = enter_device("stream_wait_event", name)) return error;
  MutexLock lock(&mutex_);
  EventState* const state = event_of(event);
  if (state == nullptr || stream_of(stream) == nullptr) {
    return failed(cudaErrorInvalidResourceHandle);
  }
  if (state->recorded == 0) return cudaSuccess;
  Work work;
  work.kind = Work::kWait;
  work.event = state;
  work.record = state->recorded;
  work.recorded_on = state->stream;
  give(stream, work);
  return cudaSuccess;
}

cudaError_t FakeCudaApi::memcpy_async(void* destination, const void* source,
                                      size_t bytes, cudaMemcpyKind kind,
                                      cudaStream_t stream) {
  const std::string details =
      is_logging()
          ? absl::StrCat(bytes, " ", name_of_kind(kind), " ", name_of(stream))
          : "";
  if (const auto error = enter_device("memcpy_async", details)) return error;
  MutexLock lock(&mutex_);
  if (stream_of(stream) == nullptr) {
    return failed(cudaErrorInvalidResourceHandle);
  }
  if (kind != cudaMemcpyDeviceToDevice) {
    const bool writes = kind == cudaMemcpyDeviceToHost;
    const cudaError_t wrong =
        check_host_side(writes ? destination : source, bytes, writes);
    if (wrong != cudaSuccess) return failed(wrong);
  }
  Work work;
  work.kind = Work::kCopy;
  work.destination = destination;
  work.source = source;
  work.bytes = bytes;
  give(stream, work);
  return cudaSuccess;
}

cudaError_t FakeCudaApi::launch_host_func(cudaStream_t stream,
                                          cudaHostFn_t function, void* data) {
  const std::string name = is_logging() ? name_of(stream) : "";
  if (const auto error = enter_device("launch_host_func", name)) return error;
  MutexLock lock(&mutex_);
  if (stream_of(stream) == nullptr) {
    return failed(cudaErrorInvalidResourceHandle);
  }
  Work work;
  work.kind = Work::kHostFunction;
  work.function = function;
  work.destination = data;
  give(stream, work);
  return cudaSuccess;
}

// --- Events

cudaError_t FakeCudaApi::event_create_with_flags(cudaEvent_t* event,
                                                 unsigned flags) {
  if (const auto error = enter_device("event_create_with_flags")) return error;
  MutexLock lock(&mutex_);
  auto state = std::make_unique<EventState>();
  state->device = device_of_thread();
  state->is_timed = (flags & cudaEventDisableTiming) == 0;
  state->is_blocking = (flags & cudaEventBlockingSync) != 0;
  *event = reinterpret_cast<cudaEvent_t>(state.get());
  events_.emplace(state.get(), std::move(state));
  return cudaSuccess;
}

cudaError_t FakeCudaApi::event_destroy(cudaEvent_t event) {
  if (const auto error = enter_device("event_destroy")) return error;
  MutexLock lock(&mutex_);
  const EventState* const state = event_of(event);
  if (state == nullptr) return failed(cudaErrorInvalidResourceHandle);
  // Work that names it still runs.
  run_all(&default_stream_);
  for (const auto& [number, stream] : streams_) run_all(stream.get());
  events_.erase(state);
  return cudaSuccess;
}

cudaError_t FakeCudaApi::event_record(cudaEvent_t event, cudaStream_t stream) {
  const std::string name = is_logging() ? name_of(stream) : "";
  if (const auto error = enter_device("event_record", name)) return error;
  MutexLock lock(&mutex_);
  EventState* const state = event_of(event);
  if (state == nullptr || stream_of(stream) == nullptr) {
    return failed(cudaErrorInvalidResourceHandle);
  }
  state->stream = stream_of(stream);
  Work work;
  work.kind = Work::kRecord;
  work.event = state;
  work.record = ++state->recorded;
  give(stream, work);
  return cudaSuccess;
}

cudaError_t FakeCudaApi::event_query(cudaEvent_t event) {
  if (const auto error = enter_device("event_query")) return error;
  MutexLock lock(&mutex_);
  const EventState* const state = event_of(event);
  if (state == nullptr) return failed(cudaErrorInvalidResourceHandle);
  return state->completed == state->recorded ? cudaSuccess
                                             : failed(cudaErrorNotReady);
}

cudaError_t FakeCudaApi::event_synchronize(cudaEvent_t event) {
  if (const auto error = enter_device("event_synchronize")) return error;
  MutexLock lock(&mutex_);
  const EventState* const state = event_of(event);
  if (state == nullptr) return failed(cudaErrorInvalidResourceHandle);
  check_wait("event_synchronize", state->is_blocking);
  if (state->recorded > 0) run_until(state->stream, state, state->recorded);
  return cudaSuccess;
}

cudaError_t FakeCudaApi::event_elapsed_time(float* milliseconds,
                                            cudaEvent_t start,
                                            cudaEvent_t end) {
  if (const auto error = enter_device("event_elapsed_time")) return error;
  MutexLock lock(&mutex_);
  for (const cudaEvent_t event : {start, end}) {
    const EventState* const state = event_of(event);
    if (state == nullptr || !state->is_timed) {
      return failed(cudaErrorInvalidResourceHandle);
    }
    if (state->completed != state->recorded) return failed(cudaErrorNotReady);
  }
  *milliseconds = 1.5F;
  return cudaSuccess;
}

// --- How work is done

std::vector<cudaStream_t> FakeCudaApi::streams() const {
  MutexLock lock(&mutex_);
  std::vector<cudaStream_t> all;
  for (const auto& [number, stream] : streams_) {
    all.push_back(reinterpret_cast<cudaStream_t>(stream.get()));
  }
  return all;
}

size_t FakeCudaApi::pending_work() const {
  MutexLock lock(&mutex_);
  size_t sum = default_stream_.work.size();
  for (const auto& [number, stream] : streams_) sum += stream->work.size();
  return sum;
}

int FakeCudaApi::priority(cudaStream_t stream) const {
  MutexLock lock(&mutex_);
  return reinterpret_cast<const StreamState*>(stream)->priority;
}

FakeCudaApi::StreamState* FakeCudaApi::stream_of(cudaStream_t stream) {
  if (stream == nullptr) return &default_stream_;
  for (const auto& [number, state] : streams_) {
    if (state.get() == reinterpret_cast<StreamState*>(stream)) {
      return state->device == device_of_thread() ? state.get() : nullptr;
    }
  }
  return nullptr;
}

FakeCudaApi::EventState* FakeCudaApi::event_of(cudaEvent_t event) const {
  const auto found = events_.find(static_cast<const void*>(event));
  return found != events_.end() && found->second->device == device_of_thread()
             ? found->second.get()
             : nullptr;
}

std::string FakeCudaApi::name_of(cudaStream_t stream) {
  MutexLock lock(&mutex_);
  const StreamState* const state = stream_of(stream);
  return absl::StrCat("stream", state == nullptr ? -1 : state->number);
}

void FakeCudaApi::give(cudaStream_t stream, const Work& work) {
  if (execution_ == Execution::kEager) return run(work);
  stream_of(stream)->work.push_back(work);
}

void FakeCudaApi::run_all(StreamState* stream) {
  while (!stream->work.empty()) run_next(stream);
}

void FakeCudaApi::run_until(StreamState* stream, const EventState* event,
                            int64_t record) {
  while (event->completed < record) run_next(stream);
}

void FakeCudaApi::run_next(StreamState* stream) {
  const Work work = stream->work.front();
  stream->work.pop_front();
  run(work);
}

void FakeCudaApi::run(const Work& work) {
  switch (work.kind) {
    case Work::kCopy:
      std::memcpy(work.destination, work.source, work.bytes);
      break;
    case Work::kHostFunction:
      work.function(work.destination);
      break;
    case Work::kRecord:
      work.event->completed = std::max(work.event->completed, work.record);
      break;
    case Work::kWait:
      run_until(work.recorded_on, work.event, work.record);
      break;
  }
}

void FakeCudaApi::run_available(cudaStream_t stream) {
  MutexLock lock(&mutex_);
  StreamState* const state = stream_of(stream);
  while (!state->work.empty()) {
    const Work& work = state->work.front();
    if (work.kind == Work::kWait && work.event->completed < work.record) return;
    run_next(state);
  }
}

}  // namespace ferry
