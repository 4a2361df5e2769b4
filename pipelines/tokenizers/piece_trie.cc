#include "pipelines/tokenizers/piece_trie.h"

#include <algorithm>
#include <cstdint>

namespace ferry {

PieceTrie::PieceTrie(std::vector<std::pair<std::string, int>> pieces)
    : pieces_(std::move(pieces)) {
  std::sort(pieces_.begin(), pieces_.end());
}

void PieceTrie::narrow(size_t position, char byte, size_t* first,
                       size_t* last) const {
  // A piece that ends before `position` stands before all longer ones.
  const auto byte_at = [position](const std::pair<std::string, int>& piece) {
    return piece.first.size() <= position
               ? -1
               : static_cast<int>(static_cast<uint8_t>(piece.first[position]));
  };
  const int wanted = static_cast<uint8_t>(byte);
  const auto begin = pieces_.begin() + static_cast<ptrdiff_t>(*first);
  const auto end = pieces_.begin() + static_cast<ptrdiff_t>(*last);
  const auto low = std::partition_point(
      begin, end, [&](const auto& piece) { return byte_at(piece) < wanted; });
  const auto high = std::partition_point(
      low, end, [&](const auto& piece) { return byte_at(piece) <= wanted; });
  *first = static_cast<size_t>(low - pieces_.begin());
  *last = static_cast<size_t>(high - pieces_.begin());
}

size_t PieceTrie::longest_prefix(absl::string_view text) const {
  size_t longest = 0;
  for_each_prefix(text, [&](size_t length, int) { longest = length; });
  return longest;
}

}  // namespace ferry
