#include "offload/audit_hook.h"

#include <cstdint>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "offload/image_layout.h"
#include "offload/image_storage.h"

namespace ferry {

AuditHook::AuditHook(std::string name, Device& device, Written written,
                     const std::vector<NamedTensor>& tensors)
    : name_(std::move(name)), device_(device), written_(written) {
  std::set<const void*> memories;
  for (const NamedTensor& item : tensors) {
    if (item.tensor.numel() == 0) continue;
    const c10::StorageImpl& storage =
        *item.tensor.storage().unsafeGetStorageImpl();
    const void* const image = image_owner(storage);
    const void* const memory = image != nullptr ? image : &storage;
    if (memories.insert(memory).second) tensors_.push_back(item);
  }
}

absl::Status AuditHook::pre_forward() {
  for (const NamedTensor& item : tensors_) {
    const auto* const data = static_cast<const char*>(
        unchecked_data_ptr(*item.tensor.storage().unsafeGetStorageImpl())
            .get());
    if (data == nullptr) continue;
    const int64_t begin = item.tensor.storage_offset() *
                          static_cast<int64_t>(item.tensor.element_size());
    const absl::Status status =
        device_.audit(data + begin, span_bytes(item.tensor));
    if (!status.ok()) {
      return absl::Status(status.code(),
                          absl::StrCat(item.path, ": ", status.message()));
    }
  }
  return absl::OkStatus();
}

absl::Status AuditHook::post_forward(ForwardOutput& /*output*/) {
  if (written_.bytes == 0) return absl::OkStatus();
  return device_.mark_access(device_.current_stream(), AccessKind::kWrite,
                             written_.data, written_.bytes);
}

}  // namespace ferry
