#include "offload/image_layout.h"

#include <c10/core/Layout.h>

#include <algorithm>
#include <cstddef>
#include <unordered_map>

#include "offload/resolved_plan.h"
#include "platform/base/check.h"

namespace ferry {

int64_t span_bytes(const at::Tensor& tensor) {
  if (tensor.numel() == 0) return 0;
  int64_t elements = 1;
  for (int64_t d = 0; d < tensor.dim(); ++d) {
    elements += (tensor.size(d) - 1) * tensor.stride(d);
  }
  return elements * static_cast<int64_t>(tensor.element_size());
}

ImageLayout plan_image(const std::vector<NamedTensor>& tensors) {
  for (const NamedTensor& item : tensors) {
    FERRY_CHECK(item.tensor.has_storage() && item.tensor.is_cpu() &&
                item.tensor.layout() == c10::kStrided);
  }
  ImageLayout layout;
  // The segments of storages.
  std::unordered_map<const void*, size_t> segments;
  for (const NamedTensor& item : tensors) {
    const at::Tensor& tensor = item.tensor;
    if (tensor.numel() == 0) continue;
    const auto* const storage = tensor.storage().unsafeGetStorageImpl();
    if (!segments.emplace(storage, layout.segments.size()).second) continue;
    const auto bytes = static_cast<int64_t>(storage->nbytes());
    layout.segments.push_back({storage, storage->data(), bytes, layout.bytes});
    layout.bytes += align_for_image(bytes);
  }
  if (!tensors.empty()) layout.bytes = std::max(layout.bytes, kImageAlignment);
  for (const NamedTensor& item : tensors) {
    const at::Tensor& tensor = item.tensor;
    if (tensor.numel() == 0) {
      layout.places.push_back({layout.segments.size(), 0});
      continue;
    }
    layout.places.push_back(
        {segments.at(tensor.storage().unsafeGetStorageImpl()),
         tensor.storage_offset()});
  }
  return layout;
}

}  // namespace ferry
