#include "tests/benchmarks/allgather_overlap.h"

#include <algorithm>
#include <array>
#include <iostream>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "platform/base/clock.h"
#include "platform/base/status_macros.h"
#include "tests/benchmarks/measurement.h"
#include "tests/benchmarks/timed_group.h"

namespace ferry {
namespace {

constexpr int kBlocks = 24;
constexpr int kPasses = 9;
constexpr int kRuns = 5;
constexpr absl::Duration kCompute = absl::Milliseconds(2);

struct Setting {
  absl::string_view name;
  // X ÷ N and G, ÷ C.
  double copies;
  double gathers;
};

constexpr std::array<Setting, 4> kSettings = {{
    {"compute decides", 0.75, 0.75},
    {"copies decide", 1.5, 0.75},
    {"gathers decide", 0.75, 1.5},
    {"all are equal", 1, 1},
}};

// The slowest rank's median.
absl::Duration pass_time(const TimedGroupOptions& options) {
  TimedGroup group(options);
  std::vector<absl::Duration> medians(static_cast<size_t>(group.size()));
  group.run([&](int rank) {
    std::vector<absl::Duration> times;
    RETURN_IF_ERROR(group.run_pass(rank));
    absl::Duration start = Clock::real().monotonic();
    for (int pass = 0; pass < kPasses; ++pass) {
      if (pass == kPasses - 1) group.begin_last_step(rank);
      RETURN_IF_ERROR(group.run_pass(rank));
      const absl::Duration end = Clock::real().monotonic();
      times.push_back(end - start);
      start = end;
    }
    group.end_request(rank);
    std::sort(times.begin(), times.end());
    medians[static_cast<size_t>(rank)] = times[kPasses / 2];
    return absl::OkStatus();
  });
  return *std::max_element(medians.begin(), medians.end());
}

// Measured time ÷ what it should be, of the least disturbed of some runs: a
// machine with fewer cores than ranks soon has something else to do.
double overlap(int ranks, const Setting& setting) {
  TimedGroupOptions options;
  options.ranks = ranks;
  options.blocks = kBlocks;
  options.compute = kCompute;
  options.copy_alone = ranks * setting.copies * kCompute;
  options.gather = setting.gathers * kCompute;
  const absl::Duration bound =
      kBlocks * std::max({1.0, setting.copies, setting.gathers}) * kCompute;
  std::vector<double> ratios;
  for (int run = 0; run < kRuns; ++run) {
    ratios.push_back(absl::FDivDuration(pass_time(options), bound));
  }
  std::sort(ratios.begin(), ratios.end());
  std::cerr << absl::StrFormat("%d ranks, %s: %.3f to %.3f\n", ranks,
                               setting.name, ratios.front(), ratios.back());
  return ratios.front();
}

}  // namespace

void measure_allgather_overlap() {
  for (const int ranks : {2, 4}) {
    double worst = 0;
    for (const Setting& setting : kSettings) {
      worst = std::max(worst, overlap(ranks, setting));
    }
    report(absl::StrCat("allgather_overlap_n", ranks), worst, "ratio",
           absl::StrCat("max(compute, copies ÷ ranks, gathers) as they are "
                        "set, the worst of ",
                        kSettings.size(), " settings, ", kBlocks,
                        " blocks that compute 2 ms, the least disturbed of ",
                        kRuns, " runs; at most 1.10"));
  }
}

}  // namespace ferry
