#include "tests/benchmarks/group_communication.h"

#include <algorithm>
#include <cstddef>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "tests/benchmarks/measurement.h"
#include "tests/support/child_process.h"
#include "tests/support/files.h"

namespace ferry {
namespace {

constexpr absl::Duration kPatience = absl::Minutes(2);

// What rank 0 of so many bench_rank processes prints.
std::vector<double> ask_ranks(absl::string_view what, int size) {
  const std::string directory = make_directory("ranks");
  std::vector<std::unique_ptr<ChildProcess>> ranks;
  for (int rank = 0; rank < size; ++rank) {
    ChildProcess::Options options;
    options.arguments = {runfile("tests/benchmarks/bench_rank"),
                         std::string(what), directory, absl::StrCat(rank),
                         absl::StrCat(size)};
    ranks.push_back(std::make_unique<ChildProcess>(options));
  }
  for (const auto& rank : ranks) {
    const std::optional<ProcessExit> exit = rank->wait(kPatience);
    require(exit.has_value() && exit->code == 0,
            absl::StrCat("a rank failed: ", rank->read_stderr()));
  }
  std::vector<double> values;
  const std::string printed = ranks[0]->read_stdout();
  for (const absl::string_view line :
       absl::StrSplit(printed, '\n', absl::SkipEmpty())) {
    require(absl::SimpleAtod(line, &values.emplace_back()),
            absl::StrCat("a rank prints \"", line, "\""));
  }
  require(!values.empty(), "a rank prints nothing");
  return values;
}

}  // namespace

void measure_vote_overhead() {
  constexpr int kRanks = 4;
  constexpr size_t kRounds = 10;
  const std::vector<double> times = ask_ranks("votes", kRanks);
  const size_t votes = times.size() / kRounds;
  std::vector<double> medians;
  for (size_t round = 0; round < kRounds; ++round) {
    const auto first = times.begin() + static_cast<ptrdiff_t>(round * votes);
    medians.push_back(median({first, first + static_cast<ptrdiff_t>(votes)}));
  }
  std::sort(medians.begin(), medians.end());
  std::cerr << absl::StrFormat("medians of rounds from %.0f to %.0f us\n",
                               medians.front(), medians.back());
  report("vote_overhead_us", medians.front(), "us",
         absl::StrCat("a vote of ", kRanks,
                      " processes over Gloo on the loopback interface, from "
                      "the last one's coming to all having the result, the "
                      "median of the least disturbed of ",
                      kRounds, " rounds; at most 500"));
}

void measure_gather_busbw() {
  std::vector<double> ratios = ask_ranks("gathers", 2);
  std::sort(ratios.begin(), ratios.end());
  std::cerr << absl::StrFormat("%d rounds: %.3f to %.3f\n",
                               static_cast<int>(ratios.size()), ratios.front(),
                               ratios.back());
  report("gather_busbw_ratio", median(ratios), "ratio",
         absl::StrCat("a bare loop over Gloo that gathers the same, two "
                      "processes, messages of 16 MiB, the median of ",
                      ratios.size(), " rounds; at least 0.9"));
}

}  // namespace ferry
