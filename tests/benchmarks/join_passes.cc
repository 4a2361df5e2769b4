#include "tests/benchmarks/join_passes.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <iostream>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "platform/base/clock.h"
#include "platform/base/status_macros.h"
#include "platform/base/testing/wait_until.h"
#include "tests/benchmarks/measurement.h"
#include "tests/benchmarks/timed_group.h"

namespace ferry {
namespace {

constexpr int kRanks = 4;
constexpr int kBlocks = 24;
constexpr int kJoins = 40;
constexpr absl::Duration kCompute = absl::Milliseconds(2);

// A request of one pass; returns how many blocks a busy rank, which counts
// them, has run until the first one of it has.
absl::StatusOr<int64_t> join(TimedGroup& group, int rank,
                             const std::atomic<int64_t>& blocks) {
  const int64_t before = blocks;
  std::optional<int64_t> after;
  group.begin_last_step(rank);
  RETURN_IF_ERROR(group.module(rank).run_pass([&](absl::Duration /*in_hooks*/) {
    if (!after) after = blocks;
  }));
  group.end_request(rank);
  return *after - before;
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
  std::atomic<int64_t> blocks{0};
  std::vector<int64_t> waits;
  group.run([&](int rank) -> absl::Status {
    if (rank == 0) {
      for (int i = 0; i < kJoins; ++i) {
        // Another moment of a pass each time: the golden section goes around.
        const double part = 0.618 * i - static_cast<int>(0.618 * i);
        wait_until(Clock::real().monotonic() + (1 + part) * kBlocks * kCompute);
        ASSIGN_OR_RETURN(waits.emplace_back(), join(group, rank, blocks));
      }
      is_over = true;
      return absl::OkStatus();
    }
    while (!is_over) {
      RETURN_IF_ERROR(
          group.module(rank).run_pass([&](absl::Duration /*in_hooks*/) {
            if (rank == 1) ++blocks;
          }));
    }
    group.end_request(rank);
    return absl::OkStatus();
  });
  const auto [least, most] = std::minmax_element(waits.begin(), waits.end());
  std::cerr << absl::StrFormat("%d requests waited for %d to %d blocks\n",
                               kJoins, *least, *most);
  report("join_passes", static_cast<double>(*most) / kBlocks, "passes",
         absl::StrCat("of a busy group of ", kRanks, " ranks, the most of ",
                      kJoins, " requests; at most 2"));
}

}  // namespace ferry
