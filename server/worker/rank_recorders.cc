#include "server/worker/rank_recorders.h"

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "server/core/proto_time.h"

namespace ferry {
namespace {

v1::FlightRecord::State proto_state(FlightRecorder::State state) {
  switch (state) {
    case FlightRecorder::State::kEnqueued:
      return v1::FlightRecord::STATE_ENQUEUED;
    case FlightRecorder::State::kStarted:
      return v1::FlightRecord::STATE_STARTED;
    case FlightRecorder::State::kEnded:
      return v1::FlightRecord::STATE_ENDED;
    case FlightRecorder::State::kFailed:
      return v1::FlightRecord::STATE_FAILED;
  }
  return v1::FlightRecord::STATE_UNSPECIFIED;
}

void fill(const FlightRecorder::Entry& entry, absl::Duration now,
          v1::FlightRecord& record) {
  record.set_number(entry.number);
  record.set_kind(entry.kind);
  record.set_bytes(entry.bytes);
  record.set_state(proto_state(entry.state));
  *record.mutable_age() = to_proto(now - entry.enqueued);
  // An operation may fail before it starts.
  if (entry.started == absl::ZeroDuration()) return;
  const bool is_over = entry.state == FlightRecorder::State::kEnded ||
                       entry.state == FlightRecorder::State::kFailed;
  *record.mutable_waited() = to_proto(entry.started - entry.enqueued);
  *record.mutable_took() =
      to_proto((is_over ? entry.ended : now) - entry.started);
}

}  // namespace

FlightRecorder& RankRecorders::add(const std::string& group, int rank,
                                   int size) {
  auto recorder = std::make_unique<FlightRecorder>(
      absl::StrCat(group, ", rank ", rank, " of ", size), clock_);
  MutexLock lock(&mutex_);
  return *recorders_.emplace_back(group, std::move(recorder)).second;
}

std::vector<v1::GroupFlightRecords> RankRecorders::records() const {
  std::vector<v1::GroupFlightRecords> groups;
  MutexLock lock(&mutex_);
  for (const auto& [name, recorder] : recorders_) {
    v1::GroupFlightRecords& group = groups.emplace_back();
    group.set_group(name);
    const std::vector<FlightRecorder::Entry> entries = recorder->entries();
    // After them: nothing is younger than now.
    const absl::Duration now = clock_.monotonic();
    for (const FlightRecorder::Entry& entry : entries) {
      fill(entry, now, *group.add_records());
    }
  }
  return groups;
}

}  // namespace ferry
