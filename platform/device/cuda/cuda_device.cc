#include "platform/device/cuda/cuda_device.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "platform/base/logging.h"
#include "platform/base/status_macros.h"
#include "platform/device/cuda/host_pages.h"

namespace ferry {

struct CudaDevice::EventState {
  cudaEvent_t handle = nullptr;
  bool is_timed = false;
  std::atomic<bool> was_recorded{false};
};

namespace {

// Lets threads that wait for the device sleep, which has to be said before
// anything makes its context. One that cannot do so spins, and serves.
void make_context(CudaApi& api, int index) {
  const cudaError_t error = api.init_device(
      index, cudaDeviceScheduleBlockingSync, cudaInitDeviceFlagsAreValid);
  if (error == cudaSuccess) return;
  (void)api.get_last_error();
  log_warning("threads that wait for the device may spin",
              {{"device", index},
               {"error", absl::StrCat("cudaInitDevice: ",
                                      api.get_error_string(error))}});
}

}  // namespace

absl::StatusOr<std::unique_ptr<CudaDevice>> CudaDevice::create(
    const CudaDeviceOptions& options, CudaApi* cuda, CudaTorch* torch) {
  auto own_api = std::make_unique<CurrentDeviceApi>(cuda, options.index);
  CurrentDeviceApi& api = *own_api;
  CudaErrors errors(&api);
  make_context(api, options.index);
  RETURN_IF_ERROR(errors.check(api.use(), "cudaSetDevice"));
  const auto can = [&](cudaDeviceAttr attribute) -> absl::StatusOr<bool> {
    int value = 0;
    RETURN_IF_ERROR(
        errors.check(api.device_get_attribute(&value, attribute, options.index),
                     "cudaDeviceGetAttribute"));
    return value != 0;
  };
  CudaHostMemory::Abilities abilities;
  ASSIGN_OR_RETURN(abilities.can_register,
                   can(cudaDevAttrHostRegisterSupported));
  ASSIGN_OR_RETURN(abilities.can_register_read_only,
                   can(cudaDevAttrHostRegisterReadOnlySupported));
  std::array<char, 32> bus_id = {};
  const absl::Status known = errors.check(
      api.device_get_pci_bus_id(bus_id.data(), static_cast<int>(bus_id.size()),
                                options.index),
      "cudaDeviceGetPCIBusId");
  if (known.ok()) {
    abilities.numa_node = find_numa_node(options.sysfs, bus_id.data());
  }
  int least = 0;
  int greatest = 0;
  RETURN_IF_ERROR(
      errors.check(api.device_get_stream_priority_range(&least, &greatest),
                   "cudaDeviceGetStreamPriorityRange"));
  return absl::WrapUnique(
      new CudaDevice(options, std::move(own_api), torch, abilities, greatest));
}

CudaDevice::CudaDevice(const CudaDeviceOptions& options,
                       std::unique_ptr<CurrentDeviceApi> own_api,
                       CudaTorch* torch, CudaHostMemory::Abilities abilities,
                       int transfer_priority)
    : options_(options),
      torch_(*torch),
      transfer_priority_(transfer_priority),
      own_api_(std::move(own_api)),
      api_(*own_api_),
      errors_(&api_),
      host_memory_(&api_, &errors_, options, abilities),
      staged_copies_(&api_, &errors_, options.staging_bytes) {}

absl::Status CudaDevice::use() const {
  RETURN_IF_ERROR(errors_.failure());
  return errors_.check(api_.use(), "cudaSetDevice");
}

void CudaDevice::empty_cache() {
  if (const absl::Status status = use(); !status.ok()) {
    log_warning("LibTorch's cache was not emptied",
                {{"error", status.message()}});
    return;
  }
  torch_.empty_cache();
}

// --- Streams

Stream CudaDevice::current_stream() const {
  return {torch_.current_stream(options_.index), StreamKind::kCompute};
}

Stream CudaDevice::exchange_current_stream(Stream stream) {
  return {torch_.exchange_current_stream(options_.index, stream.id),
          StreamKind::kCompute};
}

absl::StatusOr<cudaStream_t> CudaDevice::handle(Stream stream) const {
  RETURN_IF_ERROR(errors_.failure());
  if (stream.kind == StreamKind::kTransfer) {
    return reinterpret_cast<cudaStream_t>(stream.id);
  }
  return torch_.stream_handle(options_.index, stream.id);
}

absl::StatusOr<StreamLease> CudaDevice::acquire_stream(
    StreamKind kind, absl::string_view label) {
  RETURN_IF_ERROR(errors_.failure());
  cudaStream_t handle = nullptr;
  RETURN_IF_ERROR(errors_.check(
      api_.stream_create_with_priority(
          &handle, cudaStreamNonBlocking,
          kind == StreamKind::kTransfer ? transfer_priority_ : 0),
      absl::StrCat("cudaStreamCreateWithPriority for \"", label, "\"")));
  // As LibTorch numbers streams that are not its own.
  return StreamLease(this, {reinterpret_cast<int64_t>(handle), kind});
}

void CudaDevice::release_stream(Stream stream) {
  keep_error(errors_.check(
      api_.stream_destroy(reinterpret_cast<cudaStream_t>(stream.id)),
      "cudaStreamDestroy"));
}

absl::Status CudaDevice::synchronize(Stream stream) {
  ASSIGN_OR_RETURN(const cudaStream_t to, handle(stream));
  return errors_.check(api_.stream_synchronize(to), "cudaStreamSynchronize");
}

absl::Status CudaDevice::synchronize() {
  RETURN_IF_ERROR(errors_.failure());
  RETURN_IF_ERROR(
      errors_.check(api_.device_synchronize(), "cudaDeviceSynchronize"));
  MutexLock lock(&mutex_);
  return std::exchange(kept_error_, absl::OkStatus());
}

// --- Events

absl::StatusOr<Event> CudaDevice::create_event(bool timed) {
  RETURN_IF_ERROR(errors_.failure());
  auto state = std::make_unique<EventState>();
  state->is_timed = timed;
  RETURN_IF_ERROR(errors_.check(
      api_.event_create_with_flags(
          &state->handle,
          cudaEventBlockingSync | (timed ? 0U : cudaEventDisableTiming)),
      "cudaEventCreateWithFlags"));
  return Event(this, reinterpret_cast<int64_t>(state.release()));
}

void CudaDevice::destroy_event(int64_t event) {
  const std::unique_ptr<EventState> state(reinterpret_cast<EventState*>(event));
  keep_error(
      errors_.check(api_.event_destroy(state->handle), "cudaEventDestroy"));
}

absl::StatusOr<CudaDevice::EventState*> CudaDevice::recorded(
    const Event& event) const {
  RETURN_IF_ERROR(errors_.failure());
  if (!event) return absl::InvalidArgumentError("the event is none");
  auto* const state = reinterpret_cast<EventState*>(event.id());
  if (state->was_recorded.load(std::memory_order_relaxed)) return state;
  return absl::FailedPreconditionError(
      "the event was never recorded: there is nothing to wait for; record it "
      "first");
}

absl::Status CudaDevice::record(const Event& event, Stream stream) {
  ASSIGN_OR_RETURN(const cudaStream_t on, handle(stream));
  if (!event) return absl::InvalidArgumentError("the event is none");
  auto* const state = reinterpret_cast<EventState*>(event.id());
  RETURN_IF_ERROR(
      errors_.check(api_.event_record(state->handle, on), "cudaEventRecord"));
  state->was_recorded.store(true, std::memory_order_relaxed);
  return absl::OkStatus();
}

absl::Status CudaDevice::wait(Stream stream, const Event& event) {
  ASSIGN_OR_RETURN(const EventState* const state, recorded(event));
  ASSIGN_OR_RETURN(const cudaStream_t waiting, handle(stream));
  return errors_.check(api_.stream_wait_event(waiting, state->handle),
                       "cudaStreamWaitEvent");
}

absl::StatusOr<bool> CudaDevice::query(const Event& event) {
  ASSIGN_OR_RETURN(const EventState* const state, recorded(event));
  const cudaError_t result = api_.event_query(state->handle);
  if (result == cudaErrorNotReady) {
    // It counts as an error, which the next check would report.
    (void)api_.get_last_error();
    return false;
  }
  RETURN_IF_ERROR(errors_.check(result, "cudaEventQuery"));
  return true;
}

absl::Status CudaDevice::synchronize(const Event& event) {
  ASSIGN_OR_RETURN(const EventState* const state, recorded(event));
  return errors_.check(api_.event_synchronize(state->handle),
                       "cudaEventSynchronize");
}

absl::StatusOr<std::optional<absl::Duration>> CudaDevice::elapsed(
    const Event& start, const Event& end) {
  ASSIGN_OR_RETURN(const EventState* const from, recorded(start));
  ASSIGN_OR_RETURN(const EventState* const to, recorded(end));
  if (!from->is_timed || !to->is_timed) {
    return absl::FailedPreconditionError(
        absl::StrCat("elapsed time: the ", from->is_timed ? "second" : "first",
                     " event is not a timed one"));
  }
  float milliseconds = 0;
  const cudaError_t result =
      api_.event_elapsed_time(&milliseconds, from->handle, to->handle);
  if (result == cudaErrorNotReady) {
    (void)api_.get_last_error();
    return std::nullopt;
  }
  RETURN_IF_ERROR(errors_.check(result, "cudaEventElapsedTime"));
  return absl::Milliseconds(static_cast<double>(milliseconds));
}

// --- Work

absl::Status CudaDevice::copy_async(Stream stream, const Copy& copy) {
  if (copy.bytes == 0) return absl::OkStatus();
  if (copy.bytes < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("copy of ", copy.bytes, " bytes"));
  }
  ASSIGN_OR_RETURN(const cudaStream_t on, handle(stream));
  if (copy.kind != CopyKind::kDeviceToDevice) return copy_host(on, copy);
  RETURN_IF_ERROR(copy_bytes(on, copy));
  count(copy, /*is_pageable=*/false, /*is_staged=*/false);
  return absl::OkStatus();
}

absl::Status CudaDevice::copy_host(cudaStream_t stream, const Copy& copy) {
  const bool reads_host = copy.kind == CopyKind::kHostToDevice;
  const CudaHostMemory::Place place = host_memory_.find(
      reads_host ? copy.source : copy.destination, copy.bytes);
  if (place.kind == CudaHostMemory::Place::kAcross) {
    return absl::InvalidArgumentError(absl::StrCat(
        "copy: ", copy.bytes,
        " bytes of host memory begin in a host arena and end outside of it"));
  }
  if (!reads_host && place.is_file) {
    return absl::PermissionDeniedError(
        "copy: the host arena is a file and read-only");
  }
  const bool is_pinned = place.kind == CudaHostMemory::Place::kPinned;
  const bool is_pageable = place.kind == CudaHostMemory::Place::kElsewhere;
  if (is_pinned) {
    RETURN_IF_ERROR(copy_pieces(stream, copy, place.piece_bytes));
  } else {
    RETURN_IF_ERROR(errors_.failure());
    RETURN_IF_ERROR(staged_copies_.copy(stream, copy, /*blocks=*/is_pageable));
  }
  count(copy, is_pageable, !is_pinned);
  return absl::OkStatus();
}

// A copy that reaches into the next registration is an error to CUDA.
absl::Status CudaDevice::copy_pieces(cudaStream_t stream, const Copy& copy,
                                     int64_t first_bytes) {
  int64_t room = first_bytes;
  for (int64_t done = 0; done < copy.bytes;) {
    Copy piece = copy;
    piece.source = static_cast<const char*>(copy.source) + done;
    piece.destination = static_cast<char*>(copy.destination) + done;
    piece.bytes = std::min(room, copy.bytes - done);
    RETURN_IF_ERROR(copy_bytes(stream, piece));
    done += piece.bytes;
    room = options_.register_bytes;
  }
  return absl::OkStatus();
}

absl::Status CudaDevice::copy_bytes(cudaStream_t stream, const Copy& copy) {
  cudaMemcpyKind kind = cudaMemcpyDeviceToDevice;
  if (copy.kind == CopyKind::kHostToDevice) kind = cudaMemcpyHostToDevice;
  if (copy.kind == CopyKind::kDeviceToHost) kind = cudaMemcpyDeviceToHost;
  return errors_.check(
      api_.memcpy_async(copy.destination, copy.source,
                        static_cast<size_t>(copy.bytes), kind, stream),
      "cudaMemcpyAsync");
}

void CudaDevice::count(const Copy& copy, bool is_pageable, bool is_staged) {
  const auto add = [&copy](DeviceStats::Copies* copies) {
    ++copies->count;
    copies->bytes += copy.bytes;
  };
  MutexLock lock(&mutex_);
  switch (copy.kind) {
    case CopyKind::kHostToDevice:
      add(&stats_.host_to_device);
      break;
    case CopyKind::kDeviceToHost:
      add(&stats_.device_to_host);
      break;
    case CopyKind::kDeviceToDevice:
      add(&stats_.device_to_device);
      break;
  }
  if (is_pageable) add(&stats_.pageable);
  if (is_staged) add(&stats_.staged);
}

void CudaDevice::keep_error(const absl::Status& status) {
  // A device that failed has said so, and says so again.
  if (status.ok() || !errors_.failure().ok()) return;
  log_error("a handle of the CUDA device could not be given back",
            {{"error", status.ToString()}});
  MutexLock lock(&mutex_);
  if (kept_error_.ok()) kept_error_ = status;
}

}  // namespace ferry
