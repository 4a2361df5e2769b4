#include "tests/benchmarks/time_votes.h"

#include <sys/prctl.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "platform/base/clock.h"
#include "platform/base/status_macros.h"
#include "platform/base/testing/wait_until.h"

namespace ferry {
namespace {

constexpr int kVotes = 1000;
constexpr absl::Duration kPeriod = absl::Milliseconds(4);
constexpr absl::Duration kTimeout = absl::Seconds(60);

// Nanoseconds of the monotonic clock, which all processes share.
int64_t now() { return absl::ToInt64Nanoseconds(Clock::real().monotonic()); }

// For each vote the latest of the ranks' times.
absl::StatusOr<std::vector<int64_t>> latest(HostCommunicator& communicator,
                                            const std::vector<int64_t>& mine) {
  const auto ranks = static_cast<size_t>(communicator.size());
  std::vector<int64_t> all(ranks * mine.size());
  RETURN_IF_ERROR(communicator.all_gather(
      mine.data(), all.data(),
      static_cast<int64_t>(mine.size() * sizeof(int64_t)), kTimeout));
  std::vector<int64_t> result(mine.size());
  for (size_t i = 0; i < all.size(); ++i) {
    int64_t& time = result[i % mine.size()];
    time = std::max(time, all[i]);
  }
  return result;
}

}  // namespace

absl::StatusOr<std::vector<absl::Duration>> time_votes(
    HostCommunicator& communicator) {
  ::prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
  ASSIGN_OR_RETURN(const std::vector<int64_t> begin,
                   latest(communicator, {now()}));
  std::vector<int64_t> starts;
  std::vector<int64_t> ends;
  for (int vote = 1; vote <= kVotes; ++vote) {
    wait_until(absl::Nanoseconds(begin[0]) + vote * kPeriod);
    starts.push_back(now());
    ASSIGN_OR_RETURN(const uint64_t bits,
                     communicator.all_reduce_or(1, kTimeout));
    ends.push_back(now());
    if (bits != 1) return absl::InternalError("a vote has a wrong result");
  }
  ASSIGN_OR_RETURN(const std::vector<int64_t> last_start,
                   latest(communicator, starts));
  ASSIGN_OR_RETURN(const std::vector<int64_t> last_end,
                   latest(communicator, ends));
  std::vector<absl::Duration> times;
  for (size_t i = 0; i < last_end.size(); ++i) {
    times.push_back(absl::Nanoseconds(last_end[i] - last_start[i]));
  }
  return times;
}

}  // namespace ferry
