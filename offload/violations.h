#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace ferry {

// Collects everything that is wrong with an input, so that one error tells all
// of it. Each message names the field and what would be right.
class Violations {
 public:
  template <typename... Parts>
  void add(const Parts&... parts) {
    std::string message = absl::StrCat(parts...);
    if (std::find(messages_.begin(), messages_.end(), message) ==
        messages_.end()) {
      messages_.push_back(std::move(message));
    }
  }

  bool empty() const { return messages_.empty(); }

  // OK, or INVALID_ARGUMENT with every message, in the order of add().
  absl::Status status() const {
    if (messages_.empty()) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrJoin(messages_, "; "));
  }

 private:
  std::vector<std::string> messages_;
};

}  // namespace ferry
