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

// Measures `first` and `second` in turn, `pairs` times, each of them first in
// every other pair: whatever drifts meets both alike. Returns first ÷ second of
// each; standard error tells of every pair.
std::vector<double> measure_ratios(int pairs,
                                   const std::function<double()>& first,
                                   const std::function<double()>& second);
// The median of these.
double median_ratio(int pairs, const std::function<double()>& first,
                    const std::function<double()>& second);

// Throws when a measurement would mean nothing: ends the program.
void require(bool condition, absl::string_view what);

}  // namespace ferry
