#include "offload/ring_model.h"

#include <algorithm>
#include <cstddef>

namespace ferry {
namespace {

// After so many passes a ring of any length is in its steady state; the last
// ones are averaged, since slots may take turns over several passes.
constexpr int kWarmPasses = 6;
constexpr int kMeasuredPasses = 6;

}  // namespace

double model_pass_time(const std::vector<ModelBlock>& blocks, int slots) {
  std::vector<double> copies;
  for (const ModelBlock& block : blocks) {
    if (!block.is_resident) copies.push_back(block.transfer);
  }
  const size_t streamed = copies.size();
  const auto slot_count = static_cast<size_t>(slots);
  // Arrival of the block in each slot; blocks take the slots in turn.
  std::vector<double> ready(slot_count, 0);
  double now = 0;
  double engine = 0;
  size_t issued = 0;
  const auto issue = [&] {
    engine = std::max(engine, now) + copies[issued % streamed];
    ready[issued % slot_count] = engine;
    ++issued;
  };
  if (streamed > 0) {
    for (size_t s = 0; s < slot_count; ++s) issue();
  }
  size_t used = 0;
  double warm = 0;
  for (int pass = 0; pass < kWarmPasses + kMeasuredPasses; ++pass) {
    if (pass == kWarmPasses) warm = now;
    for (const ModelBlock& block : blocks) {
      if (block.is_resident) {
        now += block.compute;
        continue;
      }
      now = std::max(now, ready[used++ % slot_count]) + block.compute;
      issue();
    }
  }
  return (now - warm) / kMeasuredPasses;
}

}  // namespace ferry
