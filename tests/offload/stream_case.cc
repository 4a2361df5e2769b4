#include "tests/offload/stream_case.h"

#include <bitset>
#include <random>
#include <set>
#include <utility>

#include "absl/strings/str_join.h"

namespace ferry {
namespace {

using Indices = std::array<int, StreamCase::kDimensions>;

// The last dimensions are not the pipeline's.
constexpr size_t kModelDimensions = StreamCase::kDimensions - 2;
constexpr size_t kMostValues = 9;
constexpr int kCasesOfModel = 4;
// Of so many pipelines the one is taken that has the most new pairs.
constexpr int kCandidates = 12;

// Which pairs of values of two dimensions have occurred.
class PairCoverage {
 public:
  size_t count_new(const Indices& indices) const {
    size_t count = 0;
    for_each_pair(indices,
                  [&](size_t pair) { count += covered_.test(pair) ? 0 : 1; });
    return count;
  }

  void add(const Indices& indices) {
    for_each_pair(indices, [&](size_t pair) { covered_.set(pair); });
  }

  bool is_complete() const { return covered_.count() == count_pairs(); }

 private:
  static constexpr size_t kDimensions = StreamCase::kDimensions;

  template <typename Function>
  static void for_each_pair(const Indices& indices, Function function) {
    for (size_t a = 0; a < kDimensions; ++a) {
      for (size_t b = a + 1; b < kDimensions; ++b) {
        function(((a * kDimensions + b) * kMostValues +
                  static_cast<size_t>(indices[a])) *
                     kMostValues +
                 static_cast<size_t>(indices[b]));
      }
    }
  }

  static size_t count_pairs() {
    size_t count = 0;
    const Indices& sizes = StreamCase::sizes();
    for (size_t a = 0; a < kDimensions; ++a) {
      for (size_t b = a + 1; b < kDimensions; ++b) {
        count += static_cast<size_t>(sizes[a] * sizes[b]);
      }
    }
    return count;
  }

  std::bitset<kDimensions * kDimensions * kMostValues * kMostValues> covered_;
};

// The cases of one pipeline: they take turns among strategies and slots.
std::vector<Indices> cases_of(Indices indices, size_t first) {
  const int strategies = StreamCase::sizes()[kModelDimensions];
  const int slots = StreamCase::sizes()[kModelDimensions + 1];
  std::vector<Indices> cases;
  for (int i = 0; i < kCasesOfModel; ++i) {
    const int way = (static_cast<int>(first) + i) % (strategies * slots);
    indices[kModelDimensions] = way % strategies;
    indices[kModelDimensions + 1] = way / strategies;
    cases.push_back(indices);
  }
  return cases;
}

// Pipelines that have not been there, one after the other.
class Generator {
 public:
  // The cases of a pipeline that has many pairs that are not covered yet.
  std::vector<Indices> next(const PairCoverage& coverage, size_t first) {
    std::vector<Indices> best;
    size_t most = 0;
    for (int i = 0; i < kCandidates; ++i) {
      std::vector<Indices> cases = cases_of(draw(), first);
      size_t found = 0;
      for (const Indices& one : cases) found += coverage.count_new(one);
      if (best.empty() || found > most) {
        best = std::move(cases);
        most = found;
      }
    }
    return best;
  }

 private:
  Indices draw() {
    for (;;) {
      Indices indices = {};
      for (size_t d = 0; d < kModelDimensions; ++d) {
        indices[d] = static_cast<int>(
            random_() % static_cast<uint64_t>(StreamCase::sizes()[d]));
      }
      if (known_.insert(indices).second) return indices;
    }
  }

  std::mt19937_64 random_{5};
  std::set<Indices> known_;
};

}  // namespace

const Indices& StreamCase::sizes() {
  static const Indices kSizes = {3, 8, 5, 7, 4, 4, 4, 7, 4, 2, 9, 3, 4};
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
  made.block_count = indices[10] + 1;
  made.strategy = static_cast<Strategy>(indices[11]);
  made.slots = indices[12] + 1;
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
          block_count - 1,
          static_cast<int>(strategy),
          slots - 1};
}

std::string StreamCase::to_string() const {
  return absl::StrJoin(indices(), ",");
}

std::vector<StreamCase> make_stream_cases(size_t count) {
  Generator generator;
  PairCoverage coverage;
  std::vector<StreamCase> cases;
  uint64_t model = 0;
  while (cases.size() < count || !coverage.is_complete()) {
    ++model;
    for (const Indices& indices : generator.next(coverage, cases.size())) {
      coverage.add(indices);
      cases.push_back(StreamCase::from_indices(indices));
      cases.back().model = model;
      cases.back().input = cases.size();
    }
  }
  return cases;
}

}  // namespace ferry
