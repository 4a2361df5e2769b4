#include "offload/distributed/schedule_digest.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "offload/image_layout.h"
#include "offload/written_state.h"
#include "platform/base/sha256.h"
#include "platform/base/version.h"

namespace ferry {
namespace {

// From either end of a storage.
constexpr int64_t kSampleBytes = 64;

void add_sample(const ImageLayout::Segment& segment, std::string* text) {
  const auto* const data = static_cast<const char*>(segment.source);
  const int64_t bytes = std::min(segment.bytes, kSampleBytes);
  text->append(data, static_cast<size_t>(bytes));
  text->append(data + (segment.bytes - bytes), static_cast<size_t>(bytes));
}

// Returns the bytes of the group's image.
int64_t add_group(const TensorGroup& group, std::string* text) {
  const ImageLayout layout = plan_image(group.tensors);
  absl::StrAppend(text, group.owner, " ", layout.bytes, "\n");
  for (size_t i = 0; i < group.tensors.size(); ++i) {
    const at::Tensor& tensor = group.tensors[i].tensor;
    absl::StrAppend(
        text, group.tensors[i].path, " ", std::string(tensor.dtype().name()),
        " ", absl::StrJoin(tensor.sizes(), ","), " ",
        absl::StrJoin(tensor.strides(), ","), " ", layout.places[i].segment,
        " ", layout.places[i].storage_offset, "\n");
  }
  for (const ImageLayout::Segment& segment : layout.segments) {
    absl::StrAppend(text, segment.offset, " ", segment.bytes, "\n");
    add_sample(segment, text);
  }
  return layout.bytes;
}

}  // namespace

std::string schedule_digest(const PlacementPlan& plan, int ranks) {
  std::string text = absl::StrCat(kVersion, " ", ranks, "\n");
  int64_t resident = 0;
  for (const TensorGroup& group : plan.resident) {
    resident += add_group(group, &text);
  }
  if (plan.written != nullptr) {
    resident += add_group({"written state", plan.written->tensors()}, &text);
  }
  int64_t streamed = 0;
  size_t blocks = 0;
  for (const PlacementPlan::Ring& ring : plan.rings) {
    absl::StrAppend(&text, ring.options.name, " ", ring.options.slots, " ",
                    ring.is_gathered, "\n");
    blocks += ring.blocks.size();
    for (const TensorGroup& block : ring.blocks) {
      streamed += add_group(block, &text);
    }
  }
  return absl::StrCat("version ", kVersion, ", ", plan.rings.size(),
                      " rings of ", blocks, " blocks, ", streamed,
                      " bytes streamed and ", resident, " resident, SHA-256 ",
                      sha256_hex(text).substr(0, 16));
}

}  // namespace ferry
