#include "offload/residency_planner.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "offload/ring_model.h"
#include "offload/slot_layout.h"
#include "platform/base/saturating_math.h"

namespace ferry {
namespace {

// Transfer of all blocks ÷ compute of all blocks, over what is likely.
constexpr double kRatios[] = {0.5, 1, 2, 4};
// Times whose difference is a smaller part of them are equal, up to rounding.
constexpr double kSame = 1e-9;
// Numbers of streamed blocks that are tried at first; near the best of them
// all are tried.
constexpr size_t kMostCounts = 32;
// Of so few blocks each counts.
constexpr size_t kShortRing = 16;
// Plans of several rings that are kept while those of the next are added.
constexpr int64_t kMostCombinations = 512;

using Bytes = absl::Span<const int64_t>;

int fewest_slots(const RingNeeds& ring) { return ring.nests ? 2 : 1; }

Residency make_residency(const RingNeeds& ring, std::vector<bool> is_resident,
                         int slots) {
  Residency residency;
  std::vector<int64_t> streamed;
  for (size_t i = 0; i < ring.block_bytes.size(); ++i) {
    if (is_resident[i]) {
      residency.device_bytes =
          saturating_add(residency.device_bytes, ring.block_bytes[i]);
    } else {
      streamed.push_back(ring.block_bytes[i]);
    }
  }
  const SlotLayout layout = plan_slots(streamed, slots, ring.nests);
  residency.is_resident = std::move(is_resident);
  residency.slots = layout.slots;
  residency.device_bytes =
      saturating_add(residency.device_bytes, layout.bytes());
  return residency;
}

// The largest `streamed` of the candidates stream, which needs least memory.
std::vector<bool> stream_largest(Bytes block_bytes,
                                 std::vector<size_t> candidates,
                                 size_t streamed) {
  std::stable_sort(
      candidates.begin(), candidates.end(),
      [&](size_t a, size_t b) { return block_bytes[a] > block_bytes[b]; });
  std::vector<bool> is_resident(block_bytes.size(), true);
  for (size_t i = 0; i < streamed; ++i) is_resident[candidates[i]] = false;
  return is_resident;
}

// Of those that keep as many blocks as they must, the smallest one.
Residency least_residency(const RingNeeds& ring) {
  const size_t blocks = ring.block_bytes.size();
  std::vector<size_t> all(blocks);
  std::iota(all.begin(), all.end(), size_t{0});
  const size_t stay =
      std::min(static_cast<size_t>(ring.resident.value_or(0)), blocks);
  return make_residency(ring,
                        stream_largest(ring.block_bytes, all, blocks - stay),
                        fewest_slots(ring));
}

// `streamed` of the candidates stream, evenly spaced; other blocks are
// resident. Spaced by count: bytes stand for compute and for transfers, and so
// both are even.
std::vector<bool> spread(size_t blocks, const std::vector<size_t>& candidates,
                         size_t streamed, double phase) {
  std::vector<bool> is_resident(blocks, true);
  const double step =
      static_cast<double>(candidates.size()) / static_cast<double>(streamed);
  for (size_t k = 0; k < streamed; ++k) {
    const double place = (static_cast<double>(k) + phase) * step;
    is_resident[candidates[static_cast<size_t>(place)]] = false;
  }
  return is_resident;
}

// Sets of blocks that may stream: all, or only those that are not larger than
// some block, since a large resident one makes slots smaller.
std::vector<std::vector<size_t>> candidate_sets(Bytes block_bytes) {
  std::vector<int64_t> sizes(block_bytes.begin(), block_bytes.end());
  std::sort(sizes.begin(), sizes.end());
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  // The largest sizes decide; more of them only cost time.
  constexpr size_t kMostSizes = 4;
  std::vector<std::vector<size_t>> sets;
  for (size_t s = 0; s < std::min(sizes.size(), kMostSizes); ++s) {
    const int64_t largest = sizes[sizes.size() - 1 - s];
    std::vector<size_t> set;
    for (size_t i = 0; i < block_bytes.size(); ++i) {
      if (block_bytes[i] <= largest) set.push_back(i);
    }
    sets.push_back(std::move(set));
  }
  return sets;
}

bool is_quicker(double time, double other) {
  return time < other * (1 - kSame);
}

struct Option {
  Residency residency;
  double time = 0;
};

// Orders by bytes, and drops whoever is no quicker than a smaller one.
template <typename T, typename BytesOf>
void keep_best(std::vector<T>* plans, BytesOf bytes_of) {
  std::sort(plans->begin(), plans->end(), [&](const T& a, const T& b) {
    return bytes_of(a) != bytes_of(b) ? bytes_of(a) < bytes_of(b)
                                      : a.time < b.time;
  });
  std::vector<T> best;
  for (T& plan : *plans) {
    if (best.empty() || is_quicker(plan.time, best.back().time)) {
      best.push_back(std::move(plan));
    }
  }
  *plans = std::move(best);
}

// Makes plans of one ring.
class RingPlanner {
 public:
  explicit RingPlanner(const RingNeeds& ring)
      : ring_(ring), sets_(candidate_sets(ring.block_bytes)) {
    // In a long ring it matters little where the first streamed block is.
    phases_ = {0.0};
    if (!is_long()) phases_ = {0.0, 0.25, 0.5, 0.75};
  }

  // The best ones for some amounts of memory, the smallest first.
  std::vector<Option> options() const {
    std::vector<Option> options;
    add(least_residency(ring_), &options);
    for (const size_t streamed : counts()) {
      for_each_spread(streamed, [&](Residency residency) {
        add(std::move(residency), &options);
      });
    }
    keep_best(&options, bytes_of);
    return options;
  }

  // Looks near `chosen` for quicker plans that fit into `memory_bytes`.
  void improve(int64_t memory_bytes, Option* chosen) const {
    if (blocks() <= kShortRing) {
      while (exchange_blocks(memory_bytes, chosen)) {
      }
    } else if (!ring_.resident && blocks() > kMostCounts) {
      try_more_counts(memory_bytes, chosen);
    }
  }

  static int64_t bytes_of(const Option& option) {
    return option.residency.device_bytes;
  }

 private:
  size_t blocks() const { return ring_.block_bytes.size(); }
  bool is_long() const { return blocks() > 2 * kMostCounts; }

  void add(Residency residency, std::vector<Option>* options) const {
    const double time = modelled_time(ring_, residency);
    options->push_back({std::move(residency), time});
  }

  // Numbers of streamed blocks: all, or some in between.
  std::vector<size_t> counts() const {
    if (ring_.resident) {
      const auto resident = static_cast<size_t>(*ring_.resident);
      return {blocks() - std::min(resident, blocks())};
    }
    std::vector<size_t> counts = {0};
    const size_t steps = std::min(blocks(), kMostCounts);
    for (size_t s = 1; s <= steps; ++s) counts.push_back(s * blocks() / steps);
    return counts;
  }

  bool is_better(const Residency& residency, int64_t memory_bytes,
                 Option* chosen) const {
    if (residency.device_bytes > memory_bytes) return false;
    const double time = modelled_time(ring_, residency);
    if (!is_quicker(time, chosen->time)) return false;
    *chosen = {residency, time};
    return true;
  }

  // One block more or less stays, or another one; whether that helped.
  bool exchange_blocks(int64_t memory_bytes, Option* chosen) const {
    const std::vector<bool> before = chosen->residency.is_resident;
    bool helped = false;
    for (size_t i = 0; i < blocks(); ++i) {
      for (size_t j = i; j < blocks(); ++j) {
        // A number that is set stays so.
        if (j == i ? ring_.resident.has_value() : before[i] == before[j]) {
          continue;
        }
        std::vector<bool> after = before;
        after[i] = !before[i];
        after[j] = j == i ? after[j] : !before[j];
        for (int slots = fewest_slots(ring_); slots <= ring_.most_slots;
             ++slots) {
          helped |= is_better(make_residency(ring_, after, slots), memory_bytes,
                              chosen);
        }
      }
    }
    return helped;
  }

  // The numbers of streamed blocks between those that options() looked at.
  void try_more_counts(int64_t memory_bytes, Option* chosen) const {
    size_t low = 1;
    size_t high = blocks();
    while (low < high) {
      const size_t middle = low + (high - low) / 2;
      bool fits = false;
      for_each_spread(middle, [&](const Residency& residency) {
        fits = fits || residency.device_bytes <= memory_bytes;
      });
      if (fits) {
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    constexpr size_t kNear = 4;
    for (size_t n = low; n < std::min(low + kNear, blocks() + 1); ++n) {
      for_each_spread(n, [&](const Residency& residency) {
        is_better(residency, memory_bytes, chosen);
      });
    }
  }

  template <typename Function>
  void for_each_spread(size_t streamed, Function function) const {
    if (streamed == 0) {
      function(make_residency(ring_, std::vector<bool>(blocks(), true), 0));
      return;
    }
    const auto with_slots = [&](const std::vector<bool>& is_resident) {
      for (int slots = fewest_slots(ring_); slots <= ring_.most_slots;
           ++slots) {
        function(make_residency(ring_, is_resident, slots));
      }
    };
    for (const std::vector<size_t>& set : sets_) {
      if (set.size() < streamed) continue;
      for (const double phase : phases_) {
        with_slots(spread(blocks(), set, streamed, phase));
      }
      if (is_long()) continue;
      with_slots(stream_largest(ring_.block_bytes, set, streamed));
    }
  }

  const RingNeeds& ring_;
  const std::vector<std::vector<size_t>> sets_;
  std::vector<double> phases_;
};

// Chooses a plan of each ring, by their bytes and times.
class Chooser {
 public:
  explicit Chooser(int64_t memory_bytes) : memory_bytes_(memory_bytes) {
    steps_.push_back({Combination()});
  }

  // The next ring; `later_bytes` are the least that those after it need.
  void add(const std::vector<Option>& options, int64_t later_bytes) {
    std::vector<Combination> next;
    const std::vector<Combination>& last = steps_.back();
    for (size_t c = 0; c < last.size(); ++c) {
      for (size_t o = 0; o < options.size(); ++o) {
        Combination more;
        more.bytes =
            saturating_add(last[c].bytes, options[o].residency.device_bytes);
        if (saturating_add(more.bytes, later_bytes) > memory_bytes_) break;
        more.time = last[c].time + options[o].time;
        more.before = c;
        more.option = o;
        next.push_back(more);
      }
    }
    keep_best(&next, [](const Combination& c) { return c.bytes; });
    thin(&next);
    steps_.push_back(std::move(next));
  }

  // For each ring the place of its option. REQUIRES: some combination fits.
  std::vector<size_t> best() const {
    std::vector<size_t> choice(steps_.size() - 1);
    size_t at = steps_.back().size() - 1;
    for (size_t step = steps_.size() - 1; step > 0; --step) {
      choice[step - 1] = steps_[step][at].option;
      at = steps_[step][at].before;
    }
    return choice;
  }

 private:
  struct Combination {
    int64_t bytes = 0;
    double time = 0;
    // In the step before.
    size_t before = 0;
    size_t option = 0;
  };

  // Keeps the smallest one, and the quickest of each range of bytes.
  static void thin(std::vector<Combination>* all) {
    if (static_cast<int64_t>(all->size()) <= kMostCombinations) return;
    const int64_t begin = all->front().bytes;
    const int64_t range = (all->back().bytes - begin) / kMostCombinations + 1;
    std::vector<Combination> kept = {all->front()};
    for (size_t i = 1; i < all->size(); ++i) {
      const bool is_last =
          i + 1 == all->size() || ((*all)[i].bytes - begin) / range !=
                                      ((*all)[i + 1].bytes - begin) / range;
      if (is_last) kept.push_back((*all)[i]);
    }
    *all = std::move(kept);
  }

  const int64_t memory_bytes_;
  // After each ring the best combinations, the smallest first.
  std::vector<std::vector<Combination>> steps_;
};

}  // namespace

int64_t least_bytes(const RingNeeds& ring) {
  return least_residency(ring).device_bytes;
}

// Over the likely ratios, and what is lost where the plan's transfers take as
// long as compute, since there every wait shows. Of plans whose copies all hide
// behind compute, the one that copies less is better.
double modelled_time(const RingNeeds& ring, const Residency& residency) {
  constexpr double kLossWeight = 4;
  constexpr double kCopyWeight = 0.01;
  double total = 0;
  double streamed = 0;
  for (size_t i = 0; i < ring.block_bytes.size(); ++i) {
    const auto bytes = static_cast<double>(ring.block_bytes[i]);
    total += bytes;
    if (!residency.is_resident[i]) streamed += bytes;
  }
  // In units of the ring's compute, when all transfers would take `ratio` times
  // as long as that.
  std::vector<ModelBlock> blocks(ring.block_bytes.size());
  for (size_t i = 0; i < blocks.size(); ++i) {
    blocks[i].compute = static_cast<double>(ring.block_bytes[i]) / total;
    blocks[i].is_resident = residency.is_resident[i];
  }
  const auto pass_time = [&](double ratio) {
    for (ModelBlock& block : blocks) block.transfer = block.compute * ratio;
    return model_pass_time(blocks, residency.slots);
  };
  double sum = kCopyWeight * streamed / total;
  if (streamed > 0) sum += kLossWeight * (pass_time(total / streamed) - 1);
  for (const double ratio : kRatios) sum += pass_time(ratio);
  return sum * total * ring.passes;
}

absl::StatusOr<std::vector<Residency>> plan_residency(
    absl::Span<const RingNeeds> rings, int64_t memory_bytes) {
  std::vector<int64_t> least;
  int64_t later = 0;
  for (const RingNeeds& ring : rings) {
    least.push_back(least_bytes(ring));
    later = saturating_add(later, least.back());
  }
  if (later > memory_bytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the blocks need at least ", later,
                     " bytes of device memory, and may have ", memory_bytes));
  }
  std::vector<RingPlanner> planners;
  std::vector<std::vector<Option>> options;
  Chooser chooser(memory_bytes);
  for (size_t r = 0; r < rings.size(); ++r) {
    planners.emplace_back(rings[r]);
    options.push_back(planners[r].options());
    later -= least[r];
    chooser.add(options[r], later);
  }
  const std::vector<size_t> choice = chooser.best();
  int64_t left = memory_bytes;
  for (size_t r = 0; r < rings.size(); ++r) {
    left -= RingPlanner::bytes_of(options[r][choice[r]]);
  }
  std::vector<Residency> plans;
  for (size_t r = 0; r < rings.size(); ++r) {
    Option& option = options[r][choice[r]];
    left += RingPlanner::bytes_of(option);
    planners[r].improve(left, &option);
    left -= RingPlanner::bytes_of(option);
    plans.push_back(std::move(option.residency));
  }
  return plans;
}

}  // namespace ferry
