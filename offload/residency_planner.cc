#include "offload/residency_planner.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "offload/ring_model.h"

namespace ferry {
namespace {

// Transfer of all blocks ÷ compute of all blocks, over what is likely.
constexpr double kRatios[] = {0.5, 1, 2, 4};
// With 2 a copy runs beside a block; with 3 unequal blocks even out. More buy
// nothing that a resident block would not do better.
constexpr int kSlotCounts[] = {2, 3};

using Bytes = absl::Span<const int64_t>;

int64_t device_bytes(Bytes block_bytes, const std::vector<bool>& is_resident,
                     int slots) {
  int64_t resident = 0;
  int64_t largest = 0;
  for (size_t i = 0; i < block_bytes.size(); ++i) {
    if (is_resident[i]) {
      resident += block_bytes[i];
    } else {
      largest = std::max(largest, block_bytes[i]);
    }
  }
  return resident + slots * largest;
}

// Time of a pass, in units of its compute, when all transfers would take
// `ratio` times as long as that.
double pass_time(Bytes block_bytes, const std::vector<bool>& is_resident,
                 int slots, double ratio) {
  const auto total = static_cast<double>(
      std::accumulate(block_bytes.begin(), block_bytes.end(), int64_t{0}));
  std::vector<ModelBlock> blocks;
  for (size_t i = 0; i < block_bytes.size(); ++i) {
    const double share = static_cast<double>(block_bytes[i]) / total;
    blocks.push_back({share, share * ratio, is_resident[i]});
  }
  return model_pass_time(blocks, slots);
}

// Less is better: time over the likely ratios, and what is lost where the
// plan's transfers take as long as compute, since there every wait shows.
double score(Bytes block_bytes, const std::vector<bool>& is_resident,
             int slots) {
  constexpr double kLossWeight = 4;
  double total = 0;
  double streamed = 0;
  for (size_t i = 0; i < block_bytes.size(); ++i) {
    const auto bytes = static_cast<double>(block_bytes[i]);
    total += bytes;
    if (!is_resident[i]) streamed += bytes;
  }
  const double balanced =
      pass_time(block_bytes, is_resident, slots, total / streamed);
  double sum = kLossWeight * (balanced - 1);
  for (const double ratio : kRatios) {
    sum += pass_time(block_bytes, is_resident, slots, ratio);
  }
  return sum;
}

// `streamed` of the candidates stream, evenly spaced; other blocks are
// resident. Spaced by count: bytes stand for compute and for transfers, and so
// both are even.
std::vector<bool> spread(Bytes block_bytes,
                         const std::vector<size_t>& candidates, int streamed,
                         double phase) {
  std::vector<bool> is_resident(block_bytes.size(), true);
  const double step = static_cast<double>(candidates.size()) / streamed;
  for (int k = 0; k < streamed; ++k) {
    is_resident[candidates[static_cast<size_t>((k + phase) * step)]] = false;
  }
  return is_resident;
}

// Sets of blocks that may stream: all, or only those that are not larger than
// some block, since a large resident one makes every slot smaller.
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

// The best plan found so far.
class Best {
 public:
  explicit Best(Bytes block_bytes) : block_bytes_(block_bytes) {}

  void offer(std::vector<bool> is_resident, int slots,
             std::optional<int64_t> memory_bytes) {
    const int64_t bytes = device_bytes(block_bytes_, is_resident, slots);
    if (!smallest_ || bytes < *smallest_) smallest_ = bytes;
    if (memory_bytes && bytes > *memory_bytes) return;
    const double time = score(block_bytes_, is_resident, slots);
    // Equal times, up to rounding: the smaller one.
    constexpr double kSame = 1e-9;
    if (best_ && (time > time_ + kSame ||
                  (time > time_ - kSame && bytes >= best_->device_bytes))) {
      return;
    }
    time_ = time;
    best_ = Residency{std::move(is_resident), slots, bytes};
  }

  void offer_spreads(int streamed, std::optional<int64_t> memory_bytes) {
    for (const auto& set : candidate_sets(block_bytes_)) {
      if (static_cast<int>(set.size()) < streamed) continue;
      for (const double phase : {0.0, 0.25, 0.5, 0.75}) {
        const auto is_resident = spread(block_bytes_, set, streamed, phase);
        for (const int slots : kSlotCounts) {
          offer(is_resident, std::min(slots, streamed), memory_bytes);
        }
      }
    }
  }

  const std::optional<Residency>& best() const { return best_; }
  int64_t smallest() const { return *smallest_; }

 private:
  const Bytes block_bytes_;
  double time_ = 0;
  std::optional<Residency> best_;
  std::optional<int64_t> smallest_;
};

Residency all_resident(Bytes block_bytes) {
  return {std::vector<bool>(block_bytes.size(), true), 0,
          std::accumulate(block_bytes.begin(), block_bytes.end(), int64_t{0})};
}

}  // namespace

Residency plan_resident_layers(Bytes block_bytes, int resident) {
  const int streamed = static_cast<int>(block_bytes.size()) - resident;
  if (streamed <= 0) return all_resident(block_bytes);
  Best best(block_bytes);
  best.offer_spreads(streamed, std::nullopt);
  return *best.best();
}

absl::StatusOr<Residency> plan_memory_budget(Bytes block_bytes,
                                             int64_t memory_bytes) {
  Residency all = all_resident(block_bytes);
  if (all.device_bytes <= memory_bytes) return all;
  Best best(block_bytes);
  const int blocks = static_cast<int>(block_bytes.size());
  for (int streamed = 1; streamed <= blocks; ++streamed) {
    best.offer_spreads(streamed, memory_bytes);
  }
  // Slow, but it fits where nothing else does.
  best.offer(std::vector<bool>(block_bytes.size(), false), 1, memory_bytes);
  if (best.best()) return *best.best();
  return absl::ResourceExhaustedError(
      absl::StrCat("the blocks need at least ", best.smallest(),
                   " bytes of device memory, and may have ", memory_bytes));
}

}  // namespace ferry
