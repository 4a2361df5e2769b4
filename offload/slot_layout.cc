#include "offload/slot_layout.h"

#include <algorithm>
#include <cstddef>

#include "platform/base/saturating_math.h"

namespace ferry {

int64_t SlotLayout::bytes() const {
  return saturating_add(saturating_multiply(slots / 2, pair_bytes),
                        slots % 2 == 0 ? 0 : single_bytes);
}

SlotLayout plan_slots(absl::Span<const int64_t> block_bytes, int slots,
                      bool nests) {
  const size_t blocks = block_bytes.size();
  SlotLayout layout;
  layout.slots = std::min(slots, static_cast<int>(blocks));
  int64_t largest = 0;
  int64_t second = 0;
  for (const int64_t bytes : block_bytes) {
    second = std::max(second, std::min(bytes, largest));
    largest = std::max(largest, bytes);
  }
  if (layout.slots % 2 == 1) layout.single_bytes = largest;
  if (layout.slots < 2) return layout;
  if (nests) {
    layout.pair_bytes = saturating_add(largest, second);
    return layout;
  }
  const auto reach = static_cast<size_t>(layout.slots);
  for (size_t i = 0; i < blocks; ++i) {
    for (size_t d = 1; d < reach; ++d) {
      layout.pair_bytes = std::max(
          layout.pair_bytes,
          saturating_add(block_bytes[i], block_bytes[(i + d) % blocks]));
    }
  }
  return layout;
}

}  // namespace ferry
