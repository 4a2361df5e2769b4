#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace ferry {

// Writes one JSON object as a line on standard output. `reference` says what
// the value is to be compared with.
void report(absl::string_view name, double value, absl::string_view unit,
            absl::string_view reference);

// REQUIRES: !values.empty().
double median(std::vector<double> values);

struct Pair {
  double first = 0;
  double second = 0;
};

// Measures `first` and `second` in turn, `pairs` times, each of them first in
// every other pair: whatever drifts meets both alike. Standard error tells of
// every pair.
std::vector<Pair> measure_pairs(int pairs, const std::function<double()>& first,
                                const std::function<double()>& second);
// Of first ÷ second: for what drifts from pair to pair. REQUIRES:
// !pairs.empty(), as median() checks.
double median_ratio(const std::vector<Pair>& pairs);
// Median of the first ÷ median of the second: for what jumps within a pair.
// REQUIRES: !pairs.empty(), as median() checks.
double ratio_of_medians(const std::vector<Pair>& pairs);

// Throws when a measurement would mean nothing: ends the program.
void require(bool condition, absl::string_view what);

}  // namespace ferry
