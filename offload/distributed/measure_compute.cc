#include "offload/distributed/measure_compute.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "offload/distributed/start_vote.h"
#include "platform/base/status_macros.h"
#include "platform/distributed/host_communicator.h"

namespace ferry {
namespace {

// Of a whole pass, by its bytes.
absl::Duration time_of_pass(const PassEngine::Runs& runs, int64_t pass_bytes) {
  if (runs.bytes == 0) return absl::ZeroDuration();
  return runs.time *
         (static_cast<double>(pass_bytes) / static_cast<double>(runs.bytes));
}

}  // namespace

absl::StatusOr<absl::Duration> measure_compute(
    RankGroup& group, PassEngine& engine, int64_t pass_bytes,
    absl::FunctionRef<absl::Status()> run) {
  absl::Status ran = run();
  if (ran.ok()) ran = engine.begin_timing();
  if (ran.ok()) ran = run();
  // Others may still make passes, which the control group votes on.
  HostCommunicator& ranks = *group.choice;
  RETURN_IF_ERROR(vote_on_start(ranks, group.start_timeout, ran, "ran"));
  const int64_t mine =
      absl::ToInt64Nanoseconds(time_of_pass(engine.end_timing(), pass_bytes));
  std::vector<int64_t> all(static_cast<size_t>(group.size()));
  RETURN_IF_ERROR(
      ranks.all_gather(&mine, all.data(), sizeof(mine), group.start_timeout));
  return absl::Nanoseconds(*std::min_element(all.begin(), all.end()));
}

}  // namespace ferry
