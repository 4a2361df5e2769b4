#include "tests/benchmarks/join_passes.h"

#include <algorithm>
#include <atomic>
#include <iostream>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "platform/base/clock.h"
#include "platform/base/status_macros.h"
#include "tests/benchmarks/measurement.h"
#include "tests/benchmarks/timed_group.h"
#include "tests/benchmarks/wait_until.h"

namespace ferry {
namespace {

constexpr int kRanks = 4;
constexpr int kBlocks = 12;
constexpr int kJoins = 60;
constexpr absl::Duration kCompute = absl::Milliseconds(2);

// A request of one pass: how long it waits for its first block, and what it
// does at the end of that, which is little.
absl::StatusOr<absl::Duration> join(TimedGroup& group, int rank) {
  absl::Duration wait;
  bool is_first = true;
  group.begin_last_step(rank);
  RETURN_IF_ERROR(group.module(rank).run_pass([&](absl::Duration in_hooks) {
    if (is_first) wait = in_hooks;
    is_first = false;
  }));
  group.end_request(rank);
  return wait;
}

}  // namespace

void measure_join_passes() {
  TimedGroupOptions options;
  options.ranks = kRanks;
  options.blocks = kBlocks;
  options.compute = kCompute;
  options.copy_alone = kRanks * 0.75 * kCompute;
  options.gather = 0.75 * kCompute;
  TimedGroup group(options);
  std::atomic<bool> is_over{false};
  std::vector<absl::Duration> passes;
  std::vector<absl::Duration> waits;
  group.run([&](int rank) -> absl::Status {
    if (rank == 0) {
      for (int i = 0; i < kJoins; ++i) {
        // Another moment of a pass each time: the golden section goes around.
        const double part = 0.618 * i - static_cast<int>(0.618 * i);
        wait_until(Clock::real().monotonic() + (1 + part) * kBlocks * kCompute);
        ASSIGN_OR_RETURN(waits.emplace_back(), join(group, rank));
      }
      is_over = true;
      return absl::OkStatus();
    }
    while (!is_over) {
      const absl::Duration start = Clock::real().monotonic();
      RETURN_IF_ERROR(group.run_pass(rank));
      if (rank == 1) passes.push_back(Clock::real().monotonic() - start);
    }
    group.end_request(rank);
    return absl::OkStatus();
  });
  std::sort(passes.begin(), passes.end());
  std::sort(waits.begin(), waits.end());
  const absl::Duration pass = passes[passes.size() / 2];
  std::cerr << absl::StrFormat(
      "%d requests waited for %.2f to %.2f passes of %.1f ms\n", kJoins,
      absl::FDivDuration(waits.front(), pass),
      absl::FDivDuration(waits.back(), pass), absl::ToDoubleMilliseconds(pass));
  report("join_passes", absl::FDivDuration(waits.back(), pass), "passes",
         absl::StrCat("of a busy group of ", kRanks, " ranks, the most of ",
                      kJoins, " requests; at most 2"));
}

}  // namespace ferry
