#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ferry/v1/flight_records.pb.h"
#include "platform/base/clock.h"
#include "platform/base/mutex.h"
#include "platform/distributed/flight_recorder.h"

namespace ferry {

// The flight recorders of this rank, one for each group that it joins: between
// what joins, on the step thread, and who reads meanwhile, since a group that
// stands still is what they are for.
//
// Ownership: owns the recorders; none goes before it.
// Threads: thread-safe, and reading waits for no operation.
class RankRecorders {
 public:
  // `clock` must outlive it.
  explicit RankRecorders(const Clock& clock) : clock_(clock) {}

  // A recorder of what `group` carries, such as "votes".
  FlightRecorder& add(const std::string& group, int rank, int size)
      EXCLUDES_LOCK(mutex_);

  // What all of them hold now, in the order in which they were added.
  std::vector<v1::GroupFlightRecords> records() const EXCLUDES_LOCK(mutex_);

 private:
  const Clock& clock_;
  mutable Mutex mutex_;
  std::vector<std::pair<std::string, std::unique_ptr<FlightRecorder>>>
      recorders_ GUARDED_BY(mutex_);
};

}  // namespace ferry
