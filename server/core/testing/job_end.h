#pragma once

#include <cstdint>
#include <vector>

#include "absl/time/time.h"
#include "ferry/v1/job_event.pb.h"
#include "server/core/job.h"

namespace ferry {

// Blocks until the job has ended, and returns all of its events.
inline std::vector<v1::JobEvent> read_to_end(Job& job) {
  Job::Events shared;
  int64_t cursor = 0;
  while (job.read_events(&cursor, absl::Minutes(10), &shared, 1 << 20)) {
  }
  std::vector<v1::JobEvent> events;
  for (const auto& event : shared) events.push_back(*event);
  return events;
}

}  // namespace ferry
