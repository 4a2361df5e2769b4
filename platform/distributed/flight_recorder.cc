#include "platform/distributed/flight_recorder.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "platform/base/logging.h"

namespace ferry {
namespace {

std::string text_of(absl::Duration duration) {
  return absl::FormatDuration(absl::Trunc(duration, absl::Microseconds(1)));
}

std::string describe(const FlightRecorder::Entry& entry, absl::Duration now) {
  using State = FlightRecorder::State;
  std::string line = absl::StrCat("#", entry.number, " ", entry.kind);
  if (entry.bytes > 0) absl::StrAppend(&line, " of ", entry.bytes, " bytes");
  const char* const state = entry.state == State::kEnqueued  ? "enqueued"
                            : entry.state == State::kStarted ? "started"
                            : entry.state == State::kEnded   ? "ended"
                                                             : "failed";
  absl::StrAppend(&line, ": ", state, ", enqueued ",
                  text_of(now - entry.enqueued), " ago");
  const bool is_over =
      entry.state == State::kEnded || entry.state == State::kFailed;
  if (entry.started == absl::ZeroDuration()) return line;
  absl::StrAppend(&line, ", waited ", text_of(entry.started - entry.enqueued),
                  is_over ? ", took " : ", runs since ",
                  text_of((is_over ? entry.ended : now) - entry.started));
  return line;
}

}  // namespace

FlightRecorder::FlightRecorder(std::string label, const Clock& clock)
    : label_(std::move(label)), clock_(clock) {}

int64_t FlightRecorder::enqueue(const char* kind, int64_t bytes) {
  const absl::Duration now = clock_.monotonic();
  MutexLock lock(&mutex_);
  Entry& entry = ring_[place_of(++last_)];
  entry = Entry{};
  entry.number = last_;
  entry.kind = kind;
  entry.bytes = bytes;
  entry.enqueued = now;
  return last_;
}

void FlightRecorder::start(int64_t number) {
  const absl::Duration now = clock_.monotonic();
  MutexLock lock(&mutex_);
  Entry& entry = ring_[place_of(number)];
  if (entry.number != number) return;
  entry.state = State::kStarted;
  entry.started = now;
}

void FlightRecorder::end(int64_t number, const absl::Status& status) {
  const absl::Duration now = clock_.monotonic();
  {
    MutexLock lock(&mutex_);
    Entry& entry = ring_[place_of(number)];
    if (entry.number == number) {
      entry.state = status.ok() ? State::kEnded : State::kFailed;
      entry.ended = now;
    }
    if (status.ok() || has_failed_) return;
    has_failed_ = true;
  }
  log_error(
      "a collective operation failed; the latest operations follow",
      {{"group", label_}, {"operation", number}, {"error", status.ToString()}});
  for (const std::string& line : lines()) log_error(line, {{"group", label_}});
}

std::vector<FlightRecorder::Entry> FlightRecorder::entries() const {
  MutexLock lock(&mutex_);
  std::vector<Entry> entries;
  for (int64_t i = std::max<int64_t>(1, last_ - kCapacity + 1); i <= last_;
       ++i) {
    entries.push_back(ring_[place_of(i)]);
  }
  return entries;
}

std::vector<std::string> FlightRecorder::lines() const {
  const absl::Duration now = clock_.monotonic();
  std::vector<std::string> lines;
  for (const Entry& entry : entries()) lines.push_back(describe(entry, now));
  return lines;
}

}  // namespace ferry
