#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"

namespace ferry {

// Finds the pieces that a text starts with. Immutable; thread-safe.
class PieceTrie {
 public:
  // Pieces and their ids; pieces differ and are not empty.
  explicit PieceTrie(std::vector<std::pair<std::string, int>> pieces);

  // Calls `visit(length, id)` for each piece that `text` starts with, from
  // the shortest on.
  template <typename Visitor>
  void for_each_prefix(absl::string_view text, Visitor visit) const {
    // All pieces that start with the bytes so far, in order.
    size_t first = 0;
    size_t last = pieces_.size();
    for (size_t length = 1; length <= text.size(); ++length) {
      narrow(length - 1, text[length - 1], &first, &last);
      if (first == last) return;
      if (pieces_[first].first.size() == length) {
        visit(length, pieces_[first].second);
      }
    }
  }

  // Bytes of the longest piece that `text` starts with; 0 without one.
  size_t longest_prefix(absl::string_view text) const;

 private:
  // Keeps those of [*first, *last) that have `byte` at `position`.
  void narrow(size_t position, char byte, size_t* first, size_t* last) const;

  // Sorted by bytes.
  std::vector<std::pair<std::string, int>> pieces_;
};

}  // namespace ferry
