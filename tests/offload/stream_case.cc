#include "tests/offload/stream_case.h"

#include <random>
#include <set>
#include <utility>

#include "absl/strings/str_join.h"

namespace ferry {
namespace {

using Indices = std::array<int, StreamCase::kDimensions>;
// Dimension and value of one, dimension and value of another.
using Pair = std::pair<std::pair<size_t, int>, std::pair<size_t, int>>;

std::vector<Pair> pairs_of(const Indices& indices) {
  std::vector<Pair> pairs;
  for (size_t a = 0; a < indices.size(); ++a) {
    for (size_t b = a + 1; b < indices.size(); ++b) {
      pairs.push_back({{a, indices[a]}, {b, indices[b]}});
    }
  }
  return pairs;
}

size_t count_pairs() {
  size_t count = 0;
  const Indices& sizes = StreamCase::sizes();
  for (size_t a = 0; a < sizes.size(); ++a) {
    for (size_t b = a + 1; b < sizes.size(); ++b) {
      count += static_cast<size_t>(sizes[a] * sizes[b]);
    }
  }
  return count;
}

}  // namespace

const Indices& StreamCase::sizes() {
  static const Indices kSizes = {3, 8, 5, 7, 4, 4, 4, 7, 4, 2, 3, 4, 9};
  return kSizes;
}

StreamCase StreamCase::from_indices(const Indices& indices) {
  StreamCase made;
  made.blocks = static_cast<Blocks>(indices[0]);
  made.dtype = static_cast<Dtype>(indices[1]);
  made.layout = static_cast<Layout>(indices[2]);
  made.holder = static_cast<Holder>(indices[3]);
  made.tie = static_cast<Tie>(indices[4]);
  made.writes = static_cast<Writes>(indices[5]);
  made.output = static_cast<Output>(indices[6]);
  made.order = static_cast<Order>(indices[7]);
  made.others = static_cast<Others>(indices[8]);
  made.executor = static_cast<Executor>(indices[9]);
  made.strategy = static_cast<Strategy>(indices[10]);
  made.slots = indices[11] + 1;
  made.block_count = indices[12] + 1;
  return made;
}

Indices StreamCase::indices() const {
  return {static_cast<int>(blocks),
          static_cast<int>(dtype),
          static_cast<int>(layout),
          static_cast<int>(holder),
          static_cast<int>(tie),
          static_cast<int>(writes),
          static_cast<int>(output),
          static_cast<int>(order),
          static_cast<int>(others),
          static_cast<int>(executor),
          static_cast<int>(strategy),
          slots - 1,
          block_count - 1};
}

std::string StreamCase::to_string() const {
  return absl::StrJoin(indices(), ",");
}

std::vector<StreamCase> make_stream_cases(size_t count) {
  std::mt19937_64 random(5);
  std::vector<StreamCase> cases;
  std::set<Indices> known;
  std::set<Pair> covered;
  while (cases.size() < count || covered.size() < count_pairs()) {
    Indices indices;
    for (size_t d = 0; d < indices.size(); ++d) {
      indices[d] = static_cast<int>(
          random() % static_cast<uint64_t>(StreamCase::sizes()[d]));
    }
    if (!known.insert(indices).second) continue;
    for (const Pair& pair : pairs_of(indices)) covered.insert(pair);
    cases.push_back(StreamCase::from_indices(indices));
    cases.back().seed = cases.size();
  }
  return cases;
}

}  // namespace ferry
