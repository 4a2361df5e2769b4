#include "offload/block_image.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/memory/memory.h"
#include "offload/make_view.h"
#include "offload/mapped_storage.h"
#include "platform/base/status_macros.h"

namespace ferry {
namespace {

// Keeps a blob for the tensors that see it.
struct OpenArena {
  HostArena arena;
  // Ends before the arena does.
  HostAccess access;
};

void delete_open_arena(void* open_arena) {
  delete static_cast<OpenArena*>(open_arena);
}

c10::intrusive_ptr<c10::StorageImpl> make_storage(int64_t bytes,
                                                  at::DataPtr data) {
  return c10::make_intrusive<c10::StorageImpl>(
      c10::StorageImpl::use_byte_size_t(), static_cast<size_t>(bytes),
      std::move(data), /*allocator=*/nullptr, /*resizable=*/false);
}

}  // namespace

absl::StatusOr<std::unique_ptr<BlockImage>> BlockImage::pack(
    Device& device, c10::Device torch_device, const TensorGroup& group,
    ImageShare share) {
  auto image = absl::WrapUnique(new BlockImage(
      device, group.owner, torch_device, plan_image(group.tensors), share));
  RETURN_IF_ERROR(image->fill());
  RETURN_IF_ERROR(image->take(group.tensors));
  return image;
}

absl::StatusOr<std::unique_ptr<BlockImage>> BlockImage::pack_shared(
    Device& device, c10::Device torch_device, const TensorGroup& group,
    SharedImages& images) {
  auto image = absl::WrapUnique(new BlockImage(
      device, group.owner, torch_device, plan_image(group.tensors), {}));
  RETURN_IF_ERROR(image->share(images));
  RETURN_IF_ERROR(image->take(group.tensors));
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

absl::Status BlockImage::take(const std::vector<NamedTensor>& from) {
  ASSIGN_OR_RETURN(unbound_data_, device_.unbound_data(layout_.bytes));
  storage_ =
      make_storage(layout_.bytes, at::DataPtr(unbound_data_, torch_device_));
  for (const NamedTensor& item : from) tensors_.push_back(item.tensor);
  return absl::OkStatus();
}

void BlockImage::point_at(const c10::Storage& storage) {
  std::vector<at::Tensor> views;
  for (size_t i = 0; i < tensors_.size(); ++i) {
    views.push_back(
        make_view(tensors_[i], storage, layout_.storage_offsets[i]));
  }
  // What can fail for want of memory is done: all tensors move, or none.
  for (size_t i = 0; i < tensors_.size(); ++i) tensors_[i].set_data(views[i]);
}

void BlockImage::attach() { point_at(c10::Storage(storage_)); }

void BlockImage::bind(void* device_data) {
  storage_->set_data_ptr_noswap(at::DataPtr(device_data, torch_device_));
}

void BlockImage::unbind() { bind(unbound_data_); }

absl::Status BlockImage::release() {
  if (is_shared_) return release_copy();
  // The access is asked for first: after an error the arena is still here.
  ASSIGN_OR_RETURN(HostAccess access,
                   arena_.access(AccessKind::kWrite, 0, layout_.bytes));
  give_to_tensors(std::move(arena_), std::move(access));
  return absl::OkStatus();
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
  return release(std::move(copy));
}

absl::Status BlockImage::release(HostArena whole) {
  ASSIGN_OR_RETURN(HostAccess access,
                   whole.access(AccessKind::kWrite, 0, layout_.bytes));
  give_to_tensors(std::move(whole), std::move(access));
  return absl::OkStatus();
}

void BlockImage::give_to_tensors(HostArena arena, HostAccess access) {
  char* const data = access.data();
  auto open = std::make_unique<OpenArena>();
  open->arena = std::move(arena);
  open->access = std::move(access);
  point_at(c10::Storage(make_storage(
      layout_.bytes, at::DataPtr(data, open.release(), delete_open_arena,
                                 c10::Device(c10::kCPU)))));
}

}  // namespace ferry
