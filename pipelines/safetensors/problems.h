#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"

namespace ferry {

// Gathers what is wrong with weight files, so that one error tells of all. A
// file may hold thousands of tensors that are all wrong in one way: it keeps
// the first ones and counts the others.
class Problems {
 public:
  static constexpr size_t kMostTold = 12;

  void add(std::string text) {
    if (texts_.size() < kMostTold) {
      texts_.push_back(std::move(text));
    } else {
      ++untold_;
    }
  }
  // Takes over what another list, as a status, tells.
  void add(const absl::Status& status) {
    if (!status.ok()) add(std::string(status.message()));
  }

  bool empty() const { return texts_.empty(); }

  // OK, or INVALID_ARGUMENT.
  absl::Status status() const {
    if (texts_.empty()) return absl::OkStatus();
    std::string text = absl::StrJoin(texts_, "; ");
    if (untold_ > 0) absl::StrAppend(&text, "; and ", untold_, " more");
    return absl::InvalidArgumentError(text);
  }

 private:
  std::vector<std::string> texts_;
  size_t untold_ = 0;
};

// A name from a file, fit for a message: in quotes, escaped, shortened.
inline std::string quote_name(absl::string_view name) {
  constexpr size_t kLongest = 160;
  std::string text = absl::Utf8SafeCEscape(name.substr(0, kLongest));
  if (name.size() > kLongest) text += "...";
  return absl::StrCat("\"", text, "\"");
}

}  // namespace ferry
