#pragma once

#include <c10/core/StorageImpl.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "offload/tensor_group.h"

namespace ferry {

// Where the tensors of a group lie in one contiguous image.
//
// Each storage is one segment, as a whole, starting at a multiple of
// kImageAlignment, so that kernels find tensors as well aligned as LibTorch's
// allocators place them. Tensors keep their sizes, strides, aliases and
// offsets: programs may count from the start of a storage, as as_strided does.
struct ImageLayout {
  struct Segment {
    // Whose bytes they are.
    const c10::StorageImpl* storage = nullptr;
    // All of them.
    const void* source = nullptr;
    int64_t bytes = 0;
    // In the image; a multiple of kImageAlignment.
    int64_t offset = 0;
  };
  std::vector<Segment> segments;
  struct Place {
    // Of a tensor without elements: segments.size().
    size_t segment = 0;
    // In elements from the segment's start, as in the storage that it had.
    int64_t storage_offset = 0;
  };
  // For each tensor.
  std::vector<Place> places;
  // Of the image; a multiple of kImageAlignment, positive when there is a
  // tensor.
  int64_t bytes = 0;
};

// REQUIRES: the tensors are dense, strided and on the host. (What a package
// holds else is refused by make_placement_plan().)
ImageLayout plan_image(const std::vector<NamedTensor>& tensors);

// Bytes from the first to the last that a tensor uses, gaps included.
int64_t span_bytes(const at::Tensor& tensor);

}  // namespace ferry
