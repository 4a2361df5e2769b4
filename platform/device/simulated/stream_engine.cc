#include "platform/device/simulated/stream_engine.h"

#include <sys/prctl.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "platform/base/check.h"
#include "platform/device/simulated/device_memory.h"
#include "platform/device/simulated/vector_clock.h"

namespace ferry {
namespace {

// A thread that sleeps wakes some ten microseconds late; the last of the time
// it spins.
constexpr absl::Duration kSpin = absl::Microseconds(50);
// Nobody spins while so long a copy moves its bytes.
constexpr absl::Duration kMaxSpin = absl::Microseconds(300);

// Whoever gave the work does not hear what it throws; the device fails.
absl::Status carry_out(const StreamWork& work, WorkTimes& times) {
  try {
    return work(times);
  } catch (const std::exception& error) {
    return absl::InternalError(
        absl::StrCat("work of a stream: ", error.what()));
  } catch (...) {
    return absl::InternalError(
        "work of a stream: an exception of an unknown type");
  }
}

// What smaller copies take is not their bytes.
constexpr int64_t kMinSampleBytes = 64 << 10;

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace

StreamEngine::StreamEngine(const SimulatedDeviceOptions& options,
                           const Clock& clock, OperationLog* log)
    : clock_(clock),
      precise_(&clock == &Clock::real()),
      poison_(options.check),
      copy_engines_(options.copy_engines),
      log_(log),
      schedule_(options) {}

StreamEngine::~StreamEngine() {
  std::vector<std::thread> threads;
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
    clock_moved_.notify_all();
    for (const auto& stream : streams_) {
      stream->work_to_do.notify_all();
      if (stream->thread.joinable()) {
        threads.push_back(std::move(stream->thread));
      }
    }
  }
  for (std::thread& thread : threads) thread.join();
}

absl::StatusOr<int64_t> StreamEngine::open(StreamKind kind,
                                           absl::string_view label) {
  MutexLock lock(&mutex_);
  for (const auto& stream : streams_) {
    if (stream->is_open || stream->kind != kind) continue;
    stream->is_open = true;
    stream->label = std::string(label);
    return stream->id;
  }
  if (streams_.size() == VectorClock::kMaxStreams) {
    return absl::ResourceExhaustedError(
        absl::StrCat("stream \"", label, "\": all ", VectorClock::kMaxStreams,
                     " streams of the device are in use"));
  }
  auto stream = std::make_unique<StreamState>();
  const auto id = static_cast<int64_t>(streams_.size()) + 1;
  stream->id = id;
  stream->kind = kind;
  stream->label = std::string(label);
  stream->is_open = true;
  if (kind == StreamKind::kTransfer) {
    try {
      stream->thread = std::thread([this, id] { run_thread(id); });
    } catch (const std::system_error& error) {
      return absl::ResourceExhaustedError(
          absl::StrCat("stream \"", label, "\": no thread: ", error.what()));
    }
  }
  streams_.push_back(std::move(stream));
  return id;
}

void StreamEngine::close(int64_t stream) {
  MutexLock lock(&mutex_);
  state(stream).is_open = false;
}

bool StreamEngine::is_open(int64_t stream) const {
  MutexLock lock(&mutex_);
  return stream >= 1 && stream <= static_cast<int64_t>(streams_.size()) &&
         state(stream).is_open;
}

std::string StreamEngine::label(int64_t stream) const {
  MutexLock lock(&mutex_);
  return absl::StrCat(state(stream).label, " (", stream, ")");
}

StreamEngine::Point StreamEngine::enqueue(int64_t stream, Operation operation) {
  MutexLock lock(&mutex_);
  StreamState& target = state(stream);
  FERRY_CHECK(target.is_open);
  operation.given_at = clock_.monotonic();
  log(target, operation, LoggedOperation::Phase::kEnqueued, operation.given_at);
  target.queue.push(std::move(operation));
  target.work_to_do.notify_one();
  return {stream, ++target.given};
}

StreamEngine::Point StreamEngine::last(int64_t stream) const {
  MutexLock lock(&mutex_);
  return {stream, state(stream).given};
}

void StreamEngine::add_event(int64_t event) {
  MutexLock lock(&mutex_);
  const auto count = static_cast<size_t>(event) + 1;
  if (count > record_times_.size()) record_times_.resize(count);
}

bool StreamEngine::reached(const Point& point) const {
  MutexLock lock(&mutex_);
  return state(point.stream).done >= point.sequence;
}

void StreamEngine::await(const Point& point) {
  MutexLock lock(&mutex_);
  await_locked(point, /*helps=*/true);
}

void StreamEngine::await_all() {
  MutexLock lock(&mutex_);
  std::array<int64_t, VectorClock::kMaxStreams> given = {};
  const size_t count = streams_.size();
  for (size_t i = 0; i < count; ++i) given[i] = streams_[i]->given;
  for (size_t i = 0; i < count; ++i) {
    await_locked({streams_[i]->id, given[i]}, /*helps=*/true);
  }
}

std::optional<absl::Duration> StreamEngine::recorded_at(int64_t event,
                                                        int64_t record) const {
  MutexLock lock(&mutex_);
  const RecordTime& time = record_times_[static_cast<size_t>(event)];
  if (time.record != record) return std::nullopt;
  return time.at;
}

absl::Status StreamEngine::error() const {
  MutexLock lock(&mutex_);
  return error_;
}

absl::Status StreamEngine::status() {
  MutexLock lock(&mutex_);
  error_.Update(silent_error_);
  return error_;
}

void StreamEngine::look_again() {
  MutexLock lock(&mutex_);
  clock_moved_.notify_all();
}

void StreamEngine::run_thread(int64_t id) {
  // The thread sleeps for exact times.
  ::prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
  MutexLock lock(&mutex_);
  StreamState& stream = state(id);
  while (true) {
    while (stream.queue.empty() && !stopping_) stream.work_to_do.wait(&mutex_);
    if (stream.queue.empty()) return;
    run_next(id);
  }
}

void StreamEngine::await_locked(const Point& point, bool helps) {
  StreamState& stream = state(point.stream);
  while (stream.done < point.sequence) {
    if (helps && stream.kind == StreamKind::kCompute && !stream.running) {
      run_next(point.stream);
    } else if (stream.ending) {
      MutexUnlock unlock(&mutex_);
      while (stream.ending && stream.done < point.sequence) relax();
    } else {
      progress_.wait(&mutex_);
    }
  }
}

void StreamEngine::run_next(int64_t id) {
  StreamState& stream = state(id);
  const Operation operation = stream.queue.pop();
  stream.running = true;
  stream.time = std::max(stream.time, stream.kind == StreamKind::kCompute
                                          ? clock_.monotonic()
                                          : operation.given_at);
  run(stream, operation);
  log(stream, operation, LoggedOperation::Phase::kEnded, stream.time);
  const int64_t sequence = stream.done + 1;
  stream.ended_at[static_cast<size_t>(sequence) % kRemembered] = stream.time;
  stream.running = false;
  stream.done = sequence;
  // Who waits for the record after a copy need not go to sleep between them.
  if (stream.queue.empty() ||
      stream.queue.front().kind != OperationKind::kRecord) {
    stream.ending = false;
  }
  progress_.notify_all();
}

void StreamEngine::run(StreamState& stream, const Operation& operation) {
  if (operation.kind == OperationKind::kCopy) {
    run_copy(stream, operation);
    return;
  }
  log(stream, operation, LoggedOperation::Phase::kStarted, stream.time);
  switch (operation.kind) {
    case OperationKind::kWait:
      run_wait(stream, operation);
      return;
    case OperationKind::kRecord:
      run_record(stream, operation);
      return;
    case OperationKind::kWork:
      run_work(stream, operation);
      return;
    case OperationKind::kDiscard: {
      MutexUnlock unlock(&mutex_);
      fill_with_poison(operation.copy.destination, operation.copy.bytes);
      return;
    }
    case OperationKind::kCopy:
    case OperationKind::kAccess:
      return;
  }
}

void StreamEngine::run_wait(StreamState& stream, const Operation& operation) {
  const Point& point = operation.dependency;
  const bool is_compute = stream.kind == StreamKind::kCompute;
  await_locked(point, /*helps=*/is_compute);
  const StreamState& other = state(point.stream);
  if (is_compute) {
    stream.time = std::max(stream.time, clock_.monotonic());
  } else if (other.done - point.sequence < static_cast<int64_t>(kRemembered)) {
    // What ended before those that are remembered was long ago.
    stream.time = std::max(
        stream.time,
        other.ended_at[static_cast<size_t>(point.sequence) % kRemembered]);
  }
}

void StreamEngine::run_record(const StreamState& stream,
                              const Operation& operation) {
  RecordTime& time = record_times_[static_cast<size_t>(operation.event)];
  if (time.record < operation.record) time = {operation.record, stream.time};
}

void StreamEngine::run_copy(StreamState& stream, const Operation& operation) {
  const Copy& copy = operation.copy;
  take_engine();
  const CopySchedule::Times times =
      schedule_.add(copy.kind, copy.bytes, stream.time, operation.delay);
  if (poison_) {
    MutexUnlock unlock(&mutex_);
    fill_with_poison(copy.destination, copy.bytes);
  }
  log(stream, operation, LoggedOperation::Phase::kStarted, times.start);
  // Bytes become visible when the copy ends. In real time the moving itself
  // takes time, and starts so much earlier.
  absl::Duration lead = absl::ZeroDuration();
  if (precise_) {
    lead = std::min(
        absl::Seconds(static_cast<double>(copy.bytes) * seconds_per_byte_),
        times.end - times.start);
  }
  if (lead < kMaxSpin) announce_end(stream, times.end - lead);
  wait_until(times.end - lead, kSpin);
  if (!operation.fault.ok() && error_.ok()) error_ = operation.fault;
  silent_error_.Update(operation.silent_fault);
  if (error_.ok() && operation.silent_fault.ok()) move_bytes(copy);
  wait_until(times.end, kSpin);
  stream.time = times.end;
  --busy_engines_;
}

void StreamEngine::run_work(StreamState& stream, const Operation& operation) {
  WorkTimes times;
  times.start = stream.time;
  absl::Status status;
  {
    MutexUnlock unlock(&mutex_);
    status = carry_out(operation.work, times);
  }
  stream.time = times.end.value_or(clock_.monotonic());
  if (error_.ok()) error_ = std::move(status);
  if (!times.end || !error_.ok()) return;
  announce_end(stream, *times.end);
  wait_until(*times.end, kSpin);
}

void StreamEngine::take_engine() {
  const int64_t ticket = next_ticket_++;
  while (busy_engines_ == copy_engines_ || ticket != served_tickets_) {
    progress_.wait(&mutex_);
  }
  ++served_tickets_;
  ++busy_engines_;
  progress_.notify_all();
}

void StreamEngine::move_bytes(const Copy& copy) {
  double seconds = 0;
  {
    MutexUnlock unlock(&mutex_);
    const absl::Duration start = clock_.monotonic();
    std::memcpy(copy.destination, copy.source, static_cast<size_t>(copy.bytes));
    seconds = absl::ToDoubleSeconds(clock_.monotonic() - start);
  }
  if (copy.bytes < kMinSampleBytes) return;
  const double sample = seconds / static_cast<double>(copy.bytes);
  seconds_per_byte_ = 0.75 * seconds_per_byte_ + 0.25 * sample;
}

void StreamEngine::announce_end(StreamState& stream, absl::Duration end) {
  if (!precise_) return;
  wait_until(end - kSpin, absl::ZeroDuration());
  stream.ending = true;
  progress_.notify_all();
}

void StreamEngine::wait_until(absl::Duration end, absl::Duration spin) {
  while (!stopping_) {
    const absl::Duration left = end - clock_.monotonic();
    if (left <= absl::ZeroDuration()) return;
    if (!precise_) {
      clock_moved_.wait(&mutex_);
    } else if (left > spin) {
      clock_moved_.wait_for(&mutex_, absl::ToChronoNanoseconds(left - spin));
    } else {
      MutexUnlock unlock(&mutex_);
      while (clock_.monotonic() < end) relax();
    }
  }
}

void StreamEngine::log(const StreamState& stream, const Operation& operation,
                       LoggedOperation::Phase phase, absl::Duration at) const {
  log_->add({operation.kind, phase, operation.number, stream.id, operation.data,
             operation.event, operation.copy.bytes, at});
}

}  // namespace ferry
