#pragma once

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

// Ends the program with an error when a measurement would mean nothing.
void require(bool condition, absl::string_view what);

}  // namespace ferry
