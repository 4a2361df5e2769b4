#pragma once

#include <cstdint>

#include "offload/block_image.h"
#include "offload/forward_output.h"

namespace ferry {

// Replaces the tensors of an output that share the image's storage by copies of
// their own, made on the current stream, since the storage will hold another
// block. Returns how many.
int64_t clone_shared_outputs(const BlockImage& image, ForwardOutput& output);

}  // namespace ferry
