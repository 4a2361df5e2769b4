#include "offload/block_image.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "offload/make_view.h"
#include "offload/mapped_storage.h"
#include "offload/open_arena.h"
#include "platform/base/check.h"
#include "platform/base/status_macros.h"

namespace ferry {
namespace {

// For tensors without elements, which nothing can be wrong with.
c10::Storage make_empty_storage(c10::Device device) {
  return c10::Storage(make_storage(0, at::DataPtr(nullptr, device)));
}

// The paths of the tensors that lie in each segment.
std::vector<std::string> segment_names(const ImageLayout& layout,
                                       const std::vector<NamedTensor>& from) {
  std::vector<std::string> names(layout.segments.size());
  for (size_t i = 0; i < from.size(); ++i) {
    if (layout.places[i].segment == names.size()) continue;
    std::string& name = names[layout.places[i].segment];
    absl::StrAppend(&name, name.empty() ? "" : ", ", from[i].path);
  }
  return names;
}

}  // namespace

absl::StatusOr<std::unique_ptr<BlockImage>> BlockImage::pack(
    Device& device, c10::Device torch_device, const TensorGroup& group,
    ImageShare share) {
  FERRY_CHECK(!group.tensors.empty());
  FERRY_CHECK_LT(share.rank, share.ranks);
  auto image = absl::WrapUnique(new BlockImage(
      device, group.owner, torch_device, plan_image(group.tensors), share));
  RETURN_IF_ERROR(image->fill());
  image->take(group.tensors);
  return image;
}

absl::StatusOr<std::unique_ptr<BlockImage>> BlockImage::pack_shared(
    Device& device, c10::Device torch_device, const TensorGroup& group,
    SharedImages& images) {
  auto image = absl::WrapUnique(new BlockImage(
      device, group.owner, torch_device, plan_image(group.tensors), {}));
  RETURN_IF_ERROR(image->share(images));
  image->take(group.tensors);
  return image;
}

absl::Status BlockImage::fill() {
  ASSIGN_OR_RETURN(arena_, device_.allocate_host(host_bytes(), owner_));
  ASSIGN_OR_RETURN(HostAccess access,
                   arena_.access(AccessKind::kWrite, 0, host_bytes()));
  write_values(access.data());
  return access.end();
}

absl::Status BlockImage::share(SharedImages& images) {
  ASSIGN_OR_RETURN(arena_,
                   images.add(device_, layout_.bytes, owner_,
                              [this](char* data) { write_values(data); }));
  is_shared_ = true;
  if (images.writes()) return absl::OkStatus();
  // What was looked at to compare it with the writer's.
  for (const ImageLayout::Segment& segment : layout_.segments) {
    release_pages(*segment.storage);
  }
  return absl::OkStatus();
}

void BlockImage::write_values(char* data) const {
  const int64_t bytes = host_bytes();
  const int64_t begin = share_.rank * bytes;
  for (const ImageLayout::Segment& segment : layout_.segments) {
    const int64_t from_byte = std::max(segment.offset, begin);
    const int64_t to_byte =
        std::min(segment.offset + segment.bytes, begin + bytes);
    if (from_byte < to_byte) {
      std::memcpy(data + (from_byte - begin),
                  static_cast<const char*>(segment.source) +
                      (from_byte - segment.offset),
                  static_cast<size_t>(to_byte - from_byte));
    }
    // Of a mapped file there are never two copies of more than a segment.
    release_pages(*segment.storage);
  }
}

void BlockImage::take(const std::vector<NamedTensor>& from) {
  const std::vector<std::string> names = segment_names(layout_, from);
  for (size_t s = 0; s < names.size(); ++s) {
    storages_.emplace_back(
        layout_.segments[s].bytes, torch_device_, &owner_,
        absl::StrCat(names[s], ": is used outside of ", owner_,
                     ", when its values are not on the device"));
  }
  for (const NamedTensor& item : from) tensors_.push_back(item.tensor);
}

void BlockImage::point_at(const std::vector<c10::Storage>& storages) {
  std::vector<at::Tensor> views;
  for (size_t i = 0; i < tensors_.size(); ++i) {
    const ImageLayout::Place& place = layout_.places[i];
    views.push_back(
        make_view(tensors_[i], storages[place.segment], place.storage_offset));
  }
  set_data_of_all(tensors_, views);
}

void BlockImage::attach() {
  std::vector<c10::Storage> storages;
  for (const ImageStorage& storage : storages_) {
    storages.push_back(storage.storage());
  }
  storages.push_back(make_empty_storage(torch_device_));
  point_at(storages);
}

void BlockImage::bind(void* device_data) {
  for (size_t s = 0; s < storages_.size(); ++s) {
    storages_[s].bind(static_cast<char*>(device_data) +
                      layout_.segments[s].offset);
  }
}

void BlockImage::unbind() {
  for (ImageStorage& storage : storages_) storage.unbind();
}

absl::Status BlockImage::release() {
  FERRY_CHECK_EQ(share_.ranks, 1);
  return is_shared_ ? release_copy() : give_to_tensors(arena_);
}

// Ordinary tensors can be written, and others read the blob.
absl::Status BlockImage::release_copy() {
  ASSIGN_OR_RETURN(HostArena copy,
                   device_.allocate_host(layout_.bytes, owner_));
  ASSIGN_OR_RETURN(HostAccess target,
                   copy.access(AccessKind::kWrite, 0, layout_.bytes));
  ASSIGN_OR_RETURN(HostAccess source, read_host());
  std::memcpy(target.data(), source.data(), static_cast<size_t>(layout_.bytes));
  RETURN_IF_ERROR(source.end());
  RETURN_IF_ERROR(target.end());
  return give_to_tensors(copy);
}

absl::Status BlockImage::release(HostArena whole) {
  return give_to_tensors(whole);
}

absl::Status BlockImage::give_to_tensors(HostArena& arena) {
  ASSIGN_OR_RETURN(const auto open, OpenArena::open(arena, layout_.bytes));
  std::vector<c10::Storage> storages;
  for (const ImageLayout::Segment& segment : layout_.segments) {
    storages.emplace_back(make_storage(
        segment.bytes, data_in(open, open->data() + segment.offset)));
  }
  storages.push_back(make_empty_storage(c10::Device(c10::kCPU)));
  point_at(storages);
  open->keep(std::move(arena));
  return absl::OkStatus();
}

}  // namespace ferry
