#include "offload/written_state.h"

#include <c10/core/CPUAllocator.h>
#include <c10/core/Layout.h>

#include <cstring>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>

#include "offload/make_view.h"
#include "offload/mapped_storage.h"
#include "offload/open_arena.h"
#include "offload/resolved_plan.h"
#include "platform/base/check.h"
#include "platform/base/status_macros.h"

namespace ferry {
namespace {

bool is_alike(const at::Tensor& tensor, const at::Tensor& original) {
  return tensor.has_storage() &&
         tensor.unsafeGetTensorImpl()->unsafe_storage().is_alias_of(
             original.storage()) &&
         tensor.dtype() == original.dtype() &&
         tensor.sizes() == original.sizes() &&
         tensor.strides() == original.strides() &&
         tensor.storage_offset() == original.storage_offset() &&
         tensor.is_conj() == original.is_conj() &&
         tensor.is_neg() == original.is_neg();
}

void copy_bytes(void* to, const void* from, int64_t bytes) {
  // Of no bytes there may be no memory.
  if (bytes > 0) std::memcpy(to, from, static_cast<size_t>(bytes));
}

}  // namespace

WrittenState::WrittenState(std::vector<NamedTensor> tensors)
    : tensors_(std::move(tensors)) {
  std::unordered_map<const c10::StorageImpl*, size_t> segments;
  for (const NamedTensor& item : tensors_) {
    FERRY_CHECK(item.tensor.has_storage() && item.tensor.is_cpu() &&
                item.tensor.layout() == c10::kStrided);
    c10::StorageImpl* const storage =
        item.tensor.storage().unsafeGetStorageImpl();
    const auto [known, is_new] = segments.emplace(storage, segments_.size());
    if (is_new) {
      const auto bytes = static_cast<int64_t>(storage->nbytes());
      segments_.push_back(
          {c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(storage), bytes,
           bytes_});
      bytes_ += align_for_image(bytes);
    }
    segment_of_.push_back(known->second);
    originals_.push_back(make_view(item.tensor, item.tensor.storage(),
                                   item.tensor.storage_offset()));
  }
}

absl::Status WrittenState::check_loose() const {
  if (stage_ == Stage::kLoose) return absl::OkStatus();
  return absl::FailedPreconditionError(
      "what methods write is held by another offload backend; disable that "
      "one first");
}

void WrittenState::keep() {
  if (stage_ != Stage::kLoose || kept_ || bytes_ == 0) return;
  at::DataPtr kept =
      c10::GetCPUAllocator()->allocate(static_cast<size_t>(bytes_));
  write_values(static_cast<char*>(kept.get()));
  for (const Segment& segment : segments_) {
    copy_to_memory(segment.storage.get());
  }
  kept_ = std::move(kept);
}

void WrittenState::write_values(char* image) const {
  for (const Segment& segment : segments_) {
    copy_bytes(image + segment.offset,
               kept_ ? static_cast<const char*>(kept_.get()) + segment.offset
                     : segment.storage->data(),
               segment.bytes);
    release_pages(*segment.storage);
  }
}

absl::Status WrittenState::reset() {
  if (stage_ == Stage::kPacked) return check_loose();
  if (stage_ == Stage::kLoose) {
    if (!kept_ && bytes_ > 0) return absl::OkStatus();
    restore_storages();
    for (const Segment& segment : segments_) {
      copy_bytes(segment.storage->mutable_data(),
                 static_cast<const char*>(kept_.get()) + segment.offset,
                 segment.bytes);
    }
  } else {
    restore_storages();
    if (bytes_ > 0) {
      RETURN_IF_ERROR(device_->copy_async(
          device_->current_stream(),
          {CopyKind::kHostToDevice, device_data_, arena_.data(), bytes_}));
    }
    reset_bytes_ += bytes_;
  }
  restore_tensors();
  return absl::OkStatus();
}

void WrittenState::restore_storages() {
  for (const Segment& segment : segments_) {
    c10::StorageImpl& storage = *segment.storage;
    if (stage_ == Stage::kBound) {
      storage.set_data_ptr_noswap(
          at::DataPtr(device_data_ + segment.offset, torch_device_));
    } else if (static_cast<int64_t>(storage.nbytes()) != segment.bytes) {
      storage.set_data_ptr_noswap(
          c10::GetCPUAllocator()->allocate(static_cast<size_t>(segment.bytes)));
    }
    storage.set_nbytes(static_cast<size_t>(segment.bytes));
  }
}

void WrittenState::restore_tensors() {
  for (size_t i = 0; i < tensors_.size(); ++i) {
    const at::Tensor& tensor = tensors_[i].tensor;
    if (!is_alike(tensor, originals_[i])) tensor.set_data(originals_[i]);
  }
}

void WrittenState::move_to(
    c10::Device torch_device,
    absl::FunctionRef<at::DataPtr(const Segment&)> data_of) {
  c10::Allocator* const allocator = c10::GetAllocator(torch_device.type());
  std::vector<c10::intrusive_ptr<c10::StorageImpl>> storages;
  for (const Segment& segment : segments_) {
    // What could not be made larger on the host cannot be there either.
    storages.push_back(
        make_storage(segment.bytes, data_of(segment),
                     segment.storage->resizable() ? allocator : nullptr));
  }
  std::vector<at::Tensor> views;
  for (size_t i = 0; i < tensors_.size(); ++i) {
    views.push_back(make_view(originals_[i],
                              c10::Storage(storages[segment_of_[i]]),
                              originals_[i].storage_offset()));
  }
  std::vector<at::Tensor> tensors;
  tensors.reserve(tensors_.size());
  for (const NamedTensor& item : tensors_) tensors.push_back(item.tensor);
  set_data_of_all(tensors, views);
  for (size_t i = 0; i < segments_.size(); ++i) {
    segments_[i].storage = std::move(storages[i]);
  }
  originals_ = std::move(views);
}

absl::Status WrittenState::pack(Device& device, c10::Device torch_device) {
  RETURN_IF_ERROR(check_loose());
  HostArena arena;
  if (bytes_ > 0) {
    ASSIGN_OR_RETURN(arena, device.allocate_host(bytes_, "written state"));
    ASSIGN_OR_RETURN(HostAccess access,
                     arena.access(AccessKind::kWrite, 0, bytes_));
    write_values(access.data());
    RETURN_IF_ERROR(access.end());
  }
  move_to(torch_device,
          [&](const Segment&) { return at::DataPtr(nullptr, torch_device); });
  arena_ = std::move(arena);
  stage_ = Stage::kPacked;
  device_ = &device;
  torch_device_ = torch_device;
  kept_.clear();
  return absl::OkStatus();
}

void WrittenState::bind(char* device_data) {
  FERRY_CHECK_EQ(stage_, Stage::kPacked);
  stage_ = Stage::kBound;
  device_data_ = device_data;
  restore_storages();
}

absl::Status WrittenState::release() {
  FERRY_CHECK_NE(stage_, Stage::kLoose);
  std::shared_ptr<OpenArena> open;
  if (bytes_ > 0) {
    ASSIGN_OR_RETURN(open, OpenArena::open(arena_, bytes_));
  }
  const c10::Device host(c10::kCPU);
  move_to(host, [&](const Segment& segment) {
    return segment.bytes > 0 ? data_in(open, open->data() + segment.offset)
                             : at::DataPtr(nullptr, host);
  });
  if (open != nullptr) open->keep(std::move(arena_));
  stage_ = Stage::kLoose;
  device_ = nullptr;
  device_data_ = nullptr;
  return absl::OkStatus();
}

std::vector<NamedTensor> written_tensors(
    const ModuleTree& tree,
    absl::FunctionRef<const at::Tensor&(int64_t identity)> tensor) {
  std::set<int64_t> written;
  tree.for_each_tensor([&](const ModuleTensor& entry, const std::string&) {
    if (entry.is_written) written.insert(entry.storage);
  });
  std::vector<NamedTensor> tensors;
  tree.for_each_tensor([&](const ModuleTensor& entry, const std::string& path) {
    const bool has_memory = entry.storage >= 0;
    if (has_memory ? written.count(entry.storage) > 0 : entry.is_written) {
      tensors.push_back({path, tensor(entry.identity)});
    }
  });
  return tensors;
}

}  // namespace ferry
