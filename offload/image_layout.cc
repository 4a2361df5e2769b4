#include "offload/image_layout.h"

#include <algorithm>
#include <cstddef>
#include <unordered_map>

#include "offload/resolved_plan.h"

namespace ferry {
namespace {

int64_t begin_byte(const at::Tensor& tensor) {
  return tensor.storage_offset() * static_cast<int64_t>(tensor.element_size());
}

// The part of a storage that tensors use.
struct Range {
  int64_t begin = 0;
  int64_t end = 0;
  size_t segment = 0;
};

}  // namespace

int64_t span_bytes(const at::Tensor& tensor) {
  if (tensor.numel() == 0) return 0;
  int64_t elements = 1;
  for (int64_t d = 0; d < tensor.dim(); ++d) {
    elements += (tensor.size(d) - 1) * tensor.stride(d);
  }
  return elements * static_cast<int64_t>(tensor.element_size());
}

ImageLayout plan_image(const std::vector<NamedTensor>& tensors) {
  ImageLayout layout;
  std::unordered_map<const void*, Range> ranges;
  std::vector<const c10::StorageImpl*> order;
  for (const NamedTensor& item : tensors) {
    const at::Tensor& tensor = item.tensor;
    if (tensor.numel() == 0) continue;
    const auto* const storage = tensor.storage().unsafeGetStorageImpl();
    // As well aligned in the image as in the storage.
    const int64_t begin =
        begin_byte(tensor) / kImageAlignment * kImageAlignment;
    const int64_t end = begin_byte(tensor) + span_bytes(tensor);
    const auto [found, is_new] = ranges.try_emplace(storage, Range{begin, end});
    if (is_new) order.push_back(storage);
    found->second.begin = std::min(found->second.begin, begin);
    found->second.end = std::max(found->second.end, end);
  }
  for (const c10::StorageImpl* storage : order) {
    Range& range = ranges[storage];
    range.segment = layout.segments.size();
    layout.segments.push_back(
        {storage, static_cast<const char*>(storage->data()) + range.begin,
         range.end - range.begin, layout.bytes});
    layout.bytes += align_for_image(range.end - range.begin);
  }
  if (!tensors.empty()) layout.bytes = std::max(layout.bytes, kImageAlignment);
  for (const NamedTensor& item : tensors) {
    const at::Tensor& tensor = item.tensor;
    if (tensor.numel() == 0) {
      layout.places.push_back({layout.segments.size(), 0});
      continue;
    }
    const Range& range = ranges[tensor.storage().unsafeGetStorageImpl()];
    layout.places.push_back(
        {range.segment, (begin_byte(tensor) - range.begin) /
                            static_cast<int64_t>(tensor.element_size())});
  }
  return layout;
}

}  // namespace ferry
