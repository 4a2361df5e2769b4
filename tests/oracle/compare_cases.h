#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace ferry {

// How our decisions agree with recorded ones.
struct Comparison {
  int compared = 0;
  // One for each case that differs: its file and id, what was recorded and
  // what we decide.
  std::vector<std::string> differences;
};

// Decides every case of a file of JSON lines and compares; a case is a
// pipeline when it has one, else a configuration. `name` is what differences
// call the file. INVALID_ARGUMENT, naming the line, for what is no case.
absl::StatusOr<Comparison> compare_cases(const std::string& name,
                                         absl::string_view text);

}  // namespace ferry
