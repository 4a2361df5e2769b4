#include "tests/benchmarks/group_throughput.h"

#include <algorithm>
#include <iostream>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "platform/base/clock.h"
#include "platform/base/status_macros.h"
#include "tests/benchmarks/measurement.h"
#include "tests/benchmarks/timed_group.h"

namespace ferry {
namespace {

constexpr int kRanks = 4;
constexpr int kRounds = 3;
// Of each rank in a round.
constexpr int kRequests = 3;
constexpr int kSteps = 20;
constexpr int kBlocks = 12;
constexpr absl::Duration kCompute = absl::Milliseconds(2);
// X ÷ C of one rank, and G ÷ C.
constexpr double kCopies = 3;
constexpr double kGathers = 0.75;
constexpr double kBound =
    kRanks * kCopies / std::max({1.0, kCopies / kRanks, kGathers});

// Of the group, each rank with one request after the other.
double requests_per_second(int ranks, int requests) {
  TimedGroupOptions options;
  options.ranks = ranks;
  options.blocks = kBlocks;
  options.compute = kCompute;
  options.copy_alone = kCopies * kCompute;
  options.gather = kGathers * kCompute;
  TimedGroup group(options);
  const absl::Duration start = Clock::real().monotonic();
  group.run([&](int rank) {
    for (int request = 0; request < requests; ++request) {
      RETURN_IF_ERROR(group.run_request(rank, kSteps));
    }
    return absl::OkStatus();
  });
  const absl::Duration time = Clock::real().monotonic() - start;
  return ranks * requests / absl::ToDoubleSeconds(time);
}

}  // namespace

void measure_group_throughput() {
  double group = 0;
  double alone = 0;
  for (int round = 0; round < kRounds; ++round) {
    // Whatever else the machine does makes both slower.
    group = std::max(group, requests_per_second(kRanks, kRequests));
    alone = std::max(alone, requests_per_second(1, 1));
    std::cerr << absl::StrFormat("round %d: at most %.2f : %.2f\n", round + 1,
                                 group, alone);
  }
  report("throughput_n4_vs_n1", group / alone / kBound, "ratio",
         absl::StrCat(kBound,
                      " times as many requests a second, by the set rates: "
                      "copies ÷ compute = 3 for one rank, requests of ",
                      kSteps, " steps, the least disturbed of ", kRounds,
                      " rounds each; at least 0.9"));
}

}  // namespace ferry
