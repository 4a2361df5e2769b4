#include "platform/device/simulated/simulated_device.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <new>
#include <optional>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "platform/base/check.h"
#include "platform/base/fault_point.h"
#include "platform/base/logging.h"
#include "platform/base/status_macros.h"
#include "platform/device/simulated/access_history.h"

namespace ferry {
namespace {

using Operation = StreamEngine::Operation;
using Point = StreamEngine::Point;
using Touch = OrderChecker::Touch;

constexpr size_t kMaxViolations = 100;

// Streams that threads made current, by the device's instance: addresses of
// devices come again. A thread holds few.
struct CurrentStream {
  uint64_t instance;
  Stream stream;
};
thread_local std::vector<CurrentStream> current_streams;

uint64_t next_instance() {
  static std::atomic<uint64_t> instances{0};
  return ++instances;
}

absl::string_view name_of(AccessType type) {
  switch (type) {
    case AccessType::kAllocate:
      return "allocation of";
    case AccessType::kFree:
      return "free of";
    case AccessType::kDiscard:
      return "discard of";
    case AccessType::kCopyFrom:
      return "copy from";
    case AccessType::kCopyTo:
      return "copy to";
    case AccessType::kUseRead:
      return "read by compute of";
    case AccessType::kUseWrite:
      return "write by compute of";
    case AccessType::kHostRead:
      return "read of";
    case AccessType::kHostWrite:
      return "write of";
  }
  return "";
}

AccessType use_type(AccessKind kind) {
  return kind == AccessKind::kRead ? AccessType::kUseRead
                                   : AccessType::kUseWrite;
}

// A fault point that would be out of memory makes the copy fail while it runs.
absl::Status fault_of_copy(const char* point) {
  try {
    fault_point(point);
  } catch (const std::bad_alloc&) {
    return absl::InternalError("a fault point made a copy fail");
  }
  return absl::OkStatus();
}

SimulatedDeviceOptions checked(const SimulatedDeviceOptions& options) {
  FERRY_CHECK_EQ(absl::StrJoin(problems_of(options), "; "), "");
  return options;
}

}  // namespace

SimulatedDevice::SimulatedDevice(const SimulatedDeviceOptions& options,
                                 const Clock& clock)
    : options_(checked(options)),
      instance_(next_instance()),
      memory_(options.memory_bytes, options.check),
      engine_(options, clock, &log_) {
  default_stream_ = {*engine_.open(StreamKind::kCompute, "compute"),
                     StreamKind::kCompute};
}

// --- Streams

Stream SimulatedDevice::current_stream() const {
  for (const CurrentStream& current : current_streams) {
    if (current.instance == instance_) return current.stream;
  }
  return default_stream_;
}

Stream SimulatedDevice::exchange_current_stream(Stream stream) {
  const Stream previous = current_stream();
  const auto mine = std::find_if(current_streams.begin(), current_streams.end(),
                                 [this](const CurrentStream& current) {
                                   return current.instance == instance_;
                                 });
  if (mine != current_streams.end()) {
    mine->stream = stream;
    if (stream == default_stream_) current_streams.erase(mine);
  } else if (stream != default_stream_) {
    current_streams.push_back({instance_, stream});
  }
  return previous;
}

absl::StatusOr<StreamLease> SimulatedDevice::acquire_stream(
    StreamKind kind, absl::string_view label) {
  RETURN_IF_ERROR(engine_.error());
  RETURN_IF_ERROR(faults_.hit(FaultPoint::kAcquireStream));
  ASSIGN_OR_RETURN(const int64_t id, engine_.open(kind, label));
  return StreamLease(this, {id, kind});
}

void SimulatedDevice::release_stream(Stream stream) {
  engine_.close(stream.id);
}

absl::Status SimulatedDevice::synchronize(Stream stream) {
  RETURN_IF_ERROR(check_usable(stream));
  RETURN_IF_ERROR(faults_.hit(FaultPoint::kSynchronize));
  Point point;
  VectorClock clock;
  {
    MutexLock lock(&mutex_);
    point = engine_.last(stream.id);
    clock = checker_.record(static_cast<int>(stream.id));
  }
  engine_.await(point);
  MutexLock lock(&mutex_);
  checker_.join_host(clock);
  return engine_.error();
}

absl::Status SimulatedDevice::synchronize() {
  RETURN_IF_ERROR(faults_.hit(FaultPoint::kSynchronize));
  VectorClock clock;
  {
    MutexLock lock(&mutex_);
    clock = checker_.everything();
  }
  engine_.await_all();
  MutexLock lock(&mutex_);
  checker_.join_host(clock);
  RETURN_IF_ERROR(engine_.status());
  return std::exchange(kept_error_, absl::OkStatus());
}

absl::Status SimulatedDevice::check_usable(Stream stream) const {
  RETURN_IF_ERROR(engine_.error());
  if (engine_.is_open(stream.id)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "stream ", stream.id, " is none of this device, or was given back"));
}

// --- Events

absl::StatusOr<Event> SimulatedDevice::create_event(bool timed) {
  RETURN_IF_ERROR(engine_.error());
  RETURN_IF_ERROR(faults_.hit(FaultPoint::kCreateEvent));
  MutexLock lock(&mutex_);
  size_t index = 0;
  while (index < events_.size() && events_[index].is_live) ++index;
  if (index == events_.size()) events_.emplace_back();
  events_[index] = EventState{};
  events_[index].is_live = true;
  events_[index].is_timed = timed;
  const int64_t id = static_cast<int64_t>(index) + 1;
  engine_.add_event(id);
  return Event(this, id);
}

void SimulatedDevice::destroy_event(int64_t event) {
  MutexLock lock(&mutex_);
  events_[static_cast<size_t>(event - 1)].is_live = false;
}

absl::Status SimulatedDevice::record(const Event& event, Stream stream) {
  RETURN_IF_ERROR(check_usable(stream));
  RETURN_IF_ERROR(faults_.hit(FaultPoint::kRecord));
  Point point;
  {
    MutexLock lock(&mutex_);
    ASSIGN_OR_RETURN(EventState* const state, find_event(event));
    state->record = next_number_;
    if (options_.check) {
      state->clock = checker_.record(static_cast<int>(stream.id));
    }
    Operation operation;
    operation.kind = OperationKind::kRecord;
    operation.event = event.id();
    operation.record = state->record;
    point = state->point = give(stream, std::move(operation));
  }
  return carry_out(stream, point);
}

absl::Status SimulatedDevice::wait(Stream stream, const Event& event) {
  RETURN_IF_ERROR(check_usable(stream));
  RETURN_IF_ERROR(faults_.hit(FaultPoint::kWait));
  Point point;
  {
    MutexLock lock(&mutex_);
    ASSIGN_OR_RETURN(const EventState* const state, recorded_event(event));
    if (options_.check) {
      checker_.wait(static_cast<int>(stream.id), state->clock);
    }
    Operation operation;
    operation.kind = OperationKind::kWait;
    operation.event = event.id();
    operation.dependency = state->point;
    point = give(stream, std::move(operation));
  }
  return carry_out(stream, point);
}

absl::StatusOr<bool> SimulatedDevice::query(const Event& event) {
  RETURN_IF_ERROR(engine_.error());
  MutexLock lock(&mutex_);
  ASSIGN_OR_RETURN(const EventState* const state, recorded_event(event));
  if (!engine_.reached(state->point)) return false;
  checker_.join_host(state->clock);
  return true;
}

absl::Status SimulatedDevice::synchronize(const Event& event) {
  RETURN_IF_ERROR(engine_.error());
  RETURN_IF_ERROR(faults_.hit(FaultPoint::kSynchronize));
  Point point;
  VectorClock clock;
  {
    MutexLock lock(&mutex_);
    ASSIGN_OR_RETURN(const EventState* const state, recorded_event(event));
    point = state->point;
    clock = state->clock;
  }
  engine_.await(point);
  MutexLock lock(&mutex_);
  checker_.join_host(clock);
  return engine_.error();
}

absl::StatusOr<std::optional<absl::Duration>> SimulatedDevice::elapsed(
    const Event& start, const Event& end) {
  RETURN_IF_ERROR(engine_.error());
  MutexLock lock(&mutex_);
  std::array<std::optional<absl::Duration>, 2> times;
  for (size_t i = 0; i < times.size(); ++i) {
    const Event& event = i == 0 ? start : end;
    ASSIGN_OR_RETURN(const EventState* const state, recorded_event(event));
    if (!state->is_timed) {
      return absl::FailedPreconditionError(
          absl::StrCat("elapsed time: the ", i == 0 ? "first" : "second",
                       " event is not a timed one"));
    }
    times[i] = engine_.recorded_at(event.id(), state->record);
  }
  if (!times[0] || !times[1]) return std::nullopt;
  return *times[1] - *times[0];
}

absl::StatusOr<SimulatedDevice::EventState*> SimulatedDevice::find_event(
    const Event& event) {
  if (event) return &events_[static_cast<size_t>(event.id() - 1)];
  return absl::InvalidArgumentError("the event is none");
}

absl::StatusOr<SimulatedDevice::EventState*> SimulatedDevice::recorded_event(
    const Event& event) {
  ASSIGN_OR_RETURN(EventState* const state, find_event(event));
  if (state->record != 0) return state;
  return violation(absl::StrCat("event ", event.id(),
                                " was never recorded: there is nothing to "
                                "wait for; record it first"));
}

// --- Work

absl::Status SimulatedDevice::copy_async(Stream stream, const Copy& copy) {
  if (copy.bytes == 0) return absl::OkStatus();
  bool blocks = false;
  ASSIGN_OR_RETURN(const Point point, give_copy(stream, copy, &blocks));
  if (!blocks) return carry_out(stream, point);
  engine_.await(point);
  return engine_.error();
}

absl::StatusOr<Point> SimulatedDevice::give_copy(Stream stream,
                                                 const Copy& copy,
                                                 bool* blocks) {
  RETURN_IF_ERROR(check_usable(stream));
  RETURN_IF_ERROR(faults_.hit(FaultPoint::kCopy));
  const absl::Status fault = fault_of_copy("device_copy");
  const absl::Status silent_fault = fault_of_copy("silent_copy");
  MutexLock lock(&mutex_);
  ASSIGN_OR_RETURN(const PlacedCopy placed, place(copy));
  const bool reads_host = copy.kind == CopyKind::kHostToDevice;
  const bool writes_host = copy.kind == CopyKind::kDeviceToHost;
  absl::InlinedVector<Touch, 2> touches;
  if (!(placed.is_pageable && reads_host)) {
    touches.push_back(
        {AddressRange::of(copy.source, copy.bytes), AccessType::kCopyFrom});
  }
  if (!(placed.is_pageable && writes_host)) {
    touches.push_back(
        {AddressRange::of(copy.destination, copy.bytes), AccessType::kCopyTo});
  }
  RETURN_IF_ERROR(order(static_cast<int>(stream.id), next_number_, touches));
  // What is pageable has arrived when the call returns.
  if (placed.is_pageable && writes_host) {
    checker_.join_host(checker_.record(static_cast<int>(stream.id)));
  }
  Operation operation;
  operation.kind = OperationKind::kCopy;
  operation.copy = placed.copy;
  operation.data = copy.destination;
  operation.fault = faults_.hit(FaultPoint::kCopyRun);
  operation.fault.Update(fault);
  operation.silent_fault = faults_.hit(FaultPoint::kCopySilent);
  operation.silent_fault.Update(silent_fault);
  operation.delay = faults_.copy_delay();
  count(placed);
  *blocks = placed.is_pageable;
  return give(stream, std::move(operation));
}

absl::Status SimulatedDevice::mark_access(Stream stream, AccessKind kind,
                                          const void* data, int64_t bytes) {
  if (!options_.check) return absl::OkStatus();
  RETURN_IF_ERROR(check_usable(stream));
  MutexLock lock(&mutex_);
  RETURN_IF_ERROR(require_device_bytes(data, bytes));
  const int64_t number = next_number_++;
  log_.add({OperationKind::kAccess, LoggedOperation::Phase::kEnqueued, number,
            stream.id, data, 0, bytes, absl::ZeroDuration()});
  const Touch touch = {AddressRange::of(data, bytes), use_type(kind)};
  return order(static_cast<int>(stream.id), number,
               absl::MakeConstSpan(&touch, 1));
}

absl::Status SimulatedDevice::discard(Stream stream, void* data,
                                      int64_t bytes) {
  if (!options_.check) return absl::OkStatus();
  RETURN_IF_ERROR(check_usable(stream));
  Point point;
  {
    MutexLock lock(&mutex_);
    RETURN_IF_ERROR(require_device_bytes(data, bytes));
    const Touch touch = {AddressRange::of(data, bytes), AccessType::kDiscard};
    RETURN_IF_ERROR(order(static_cast<int>(stream.id), next_number_,
                          absl::MakeConstSpan(&touch, 1)));
    Operation operation;
    operation.kind = OperationKind::kDiscard;
    operation.copy.destination = data;
    operation.copy.bytes = bytes;
    operation.data = data;
    point = give(stream, std::move(operation));
  }
  return carry_out(stream, point);
}

absl::Status SimulatedDevice::launch(Stream stream, absl::Span<const Use> uses,
                                     std::function<absl::Status()> work) {
  return launch_timed(
      stream, uses,
      [work = std::move(work)](WorkTimes& /*times*/) { return work(); });
}

absl::Status SimulatedDevice::launch_timed(Stream stream,
                                           absl::Span<const Use> uses,
                                           StreamWork work) {
  RETURN_IF_ERROR(check_usable(stream));
  Point point;
  {
    MutexLock lock(&mutex_);
    absl::InlinedVector<Touch, 4> touches;
    for (const Use& use : uses) {
      RETURN_IF_ERROR(require_device_bytes(use.data, use.bytes));
      touches.push_back(
          {AddressRange::of(use.data, use.bytes), use_type(use.kind)});
    }
    RETURN_IF_ERROR(order(static_cast<int>(stream.id), next_number_, touches));
    Operation operation;
    operation.kind = OperationKind::kWork;
    operation.work = std::move(work);
    point = give(stream, std::move(operation));
  }
  return carry_out(stream, point);
}

Point SimulatedDevice::give(Stream stream, Operation operation) {
  operation.number = next_number_++;
  return engine_.enqueue(stream.id, std::move(operation));
}

absl::Status SimulatedDevice::carry_out(Stream stream, const Point& point) {
  if (stream.kind != StreamKind::kCompute) return absl::OkStatus();
  engine_.await(point);
  return engine_.error();
}

// --- What is wrong

absl::Status SimulatedDevice::order(int owner, int64_t number,
                                    absl::Span<const Touch> touches) {
  if (!options_.check) return absl::OkStatus();
  const std::optional<AccessConflict> conflict =
      checker_.access(owner, number, touches);
  if (!conflict) return absl::OkStatus();
  const Access& earlier = conflict->earlier;
  const std::string later =
      absl::StrCat("#", number, " ", name_of(conflict->later), " ",
                   describe(conflict->range), " on ", owner_name(owner));
  const std::string before =
      absl::StrCat("#", earlier.number, " ", name_of(earlier.type), " them on ",
                   owner_name(earlier.owner));
  if (conflict->reason == AccessConflict::Reason::kNoContent) {
    return violation(
        absl::StrCat(later, " finds no content: ", before, " left none"));
  }
  return violation(
      absl::StrCat(later, " is not ordered after ", before,
                   owner == VectorClock::kHost
                       ? "; synchronize with that stream first"
                       : "; wait for an event that is recorded after it"));
}

absl::Status SimulatedDevice::order_host(AccessType type, const void* data,
                                         int64_t bytes) {
  const Touch touch = {AddressRange::of(data, bytes), type};
  return order(VectorClock::kHost, next_number_++,
               absl::MakeConstSpan(&touch, 1));
}

absl::Status SimulatedDevice::violation(const std::string& message) const {
  if (violations_.size() < kMaxViolations) violations_.push_back(message);
  return absl::FailedPreconditionError(
      absl::StrCat("simulated device: ", message));
}

std::vector<std::string> SimulatedDevice::violations() const {
  MutexLock lock(&mutex_);
  return violations_;
}

std::string SimulatedDevice::owner_name(int owner) const {
  if (owner == VectorClock::kHost) return "the host";
  return absl::StrCat("stream ", engine_.label(owner));
}

void SimulatedDevice::keep_error(const absl::Status& status) {
  if (status.ok()) return;
  log_error("a handle of the simulated device was given back too early",
            {{"error", status.ToString()}});
  MutexLock lock(&mutex_);
  if (kept_error_.ok()) kept_error_ = status;
}

}  // namespace ferry
