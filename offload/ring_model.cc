#include "offload/ring_model.h"

#include <algorithm>
#include <cstddef>

namespace ferry {
namespace {

// After so many streamed blocks a ring is in its steady state. As many more
// are averaged, since slots may take turns over several passes.
constexpr size_t kWarmBlocks = 64;
constexpr size_t kMostPasses = 6;

}  // namespace

double model_pass_time(const std::vector<ModelBlock>& blocks, int slots) {
  std::vector<double> copies;
  copies.reserve(blocks.size());
  for (const ModelBlock& block : blocks) {
    if (!block.is_resident) copies.push_back(block.transfer);
  }
  const size_t streamed = copies.size();
  const auto slot_count = static_cast<size_t>(slots);
  // Arrival of the block in each slot; blocks take the slots in turn.
  std::vector<double> ready(slot_count, 0);
  double now = 0;
  double engine = 0;
  // Where the next copy comes from, and where it goes to.
  size_t block_to_copy = 0;
  size_t slot_to_fill = 0;
  const auto issue = [&] {
    engine = std::max(engine, now) + copies[block_to_copy];
    ready[slot_to_fill] = engine;
    if (++block_to_copy == streamed) block_to_copy = 0;
    if (++slot_to_fill == slot_count) slot_to_fill = 0;
  };
  if (streamed > 0) {
    for (size_t s = 0; s < slot_count; ++s) issue();
  }
  const size_t passes = std::clamp<size_t>(
      kWarmBlocks / std::max<size_t>(streamed, 1), 1, kMostPasses);
  size_t slot_to_use = 0;
  double warm = 0;
  for (size_t pass = 0; pass < 2 * passes; ++pass) {
    if (pass == passes) warm = now;
    for (const ModelBlock& block : blocks) {
      if (block.is_resident) {
        now += block.compute;
        continue;
      }
      now = std::max(now, ready[slot_to_use]) + block.compute;
      if (++slot_to_use == slot_count) slot_to_use = 0;
      issue();
    }
  }
  return (now - warm) / static_cast<double>(passes);
}

}  // namespace ferry
