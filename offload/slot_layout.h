#pragma once

#include <cstdint>

#include "absl/types/span.h"

namespace ferry {

// How the slots of a ring share its device memory. Two slots make a pair: they
// share a region, one holds its block at the region's begin, the other one at
// its end. Blocks that are in them at the same time need the sum of their
// sizes, and not twice the size of the largest block. Of an odd number the last
// slot has a region of its own.
//
//   region 0                      region 1
//   ├─ slot 0 ──►   ◄── slot 1 ─┤ ├─ slot 2 ─────┤
struct SlotLayout {
  // No more than there are blocks.
  int slots = 0;
  // Of the region of a pair.
  int64_t pair_bytes = 0;
  // Of the region of the last slot, if their number is odd.
  int64_t single_bytes = 0;

  bool is_paired(int slot) const { return slot / 2 * 2 + 1 < slots; }
  // Of the region that a slot is in.
  int64_t region_bytes(int slot) const {
    return is_paired(slot) ? pair_bytes : single_bytes;
  }
  // Where that begins.
  int64_t region_begin(int slot) const { return slot / 2 * pair_bytes; }
  // Of all regions; saturated (saturating_math.h).
  int64_t bytes() const;
};

// The smallest regions for so many slots. In a pass the slots hold blocks that
// follow each other, around the ring's end, and so every two of `slots`
// consecutive blocks fit into a region. If blocks may run inside of others
// (`nests`), any two do.
//
// `block_bytes`: of the images that are streamed, in the order of a pass.
SlotLayout plan_slots(absl::Span<const int64_t> block_bytes, int slots,
                      bool nests);

}  // namespace ferry
