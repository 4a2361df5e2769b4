#include "offload/distributed/try_passes.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "offload/distributed/rank_group.h"
#include "offload/distributed/start_vote.h"
#include "offload/torch_status.h"
#include "platform/base/check.h"
#include "platform/base/status_macros.h"
#include "platform/device/device.h"
#include "platform/distributed/host_communicator.h"

namespace ferry {
namespace {

// Of a whole pass, by its bytes.
absl::Duration time_of_pass(const PassEngine::Runs& runs, int64_t pass_bytes) {
  if (runs.bytes == 0) return absl::ZeroDuration();
  return runs.time *
         (static_cast<double>(pass_bytes) / static_cast<double>(runs.bytes));
}

// The error after which this rank can do nothing any more.
absl::Status find_loss(PassEngine& engine) {
  RETURN_IF_ERROR(engine.check());
  return engine.device().status();
}

}  // namespace

absl::StatusOr<TriedPasses> try_passes(PassEngine& engine,
                                       std::optional<int64_t> pass_bytes,
                                       absl::FunctionRef<absl::Status()> run) {
  RankGroup& group = engine.group();
  FERRY_CHECK(group.choice != nullptr);
  const auto try_once = [&] {
    absl::Status status = call_torch("the smallest request", run);
    // What it was in the middle of holds the others up.
    if (!status.ok()) engine.withdraw();
    return status;
  };
  absl::Status ran = try_once();
  PassEngine::Runs runs;
  if (ran.ok() && pass_bytes.has_value()) {
    ran = engine.begin_timing();
    if (ran.ok()) ran = try_once();
    runs = engine.end_timing();
  }
  // Others may still make passes, which the control group votes on.
  HostCommunicator& ranks = *group.choice;
  RETURN_IF_ERROR(
      vote_on_start(ranks, group.start_timeout, find_loss(engine), "is well"));
  TriedPasses tried;
  tried.status = vote_on_start(ranks, group.start_timeout, ran, "ran");
  RETURN_IF_ERROR(ranks.status());
  if (!tried.status.ok() || !pass_bytes.has_value()) return tried;
  const int64_t mine =
      absl::ToInt64Nanoseconds(time_of_pass(runs, *pass_bytes));
  std::vector<int64_t> all(static_cast<size_t>(group.size()));
  RETURN_IF_ERROR(
      ranks.all_gather(&mine, all.data(), sizeof(mine), group.start_timeout));
  tried.compute = absl::Nanoseconds(*std::min_element(all.begin(), all.end()));
  return tried;
}

}  // namespace ferry
