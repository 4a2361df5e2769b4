#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <c10/core/Storage.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "offload/distributed/shared_images.h"
#include "offload/image_layout.h"
#include "offload/image_storage.h"
#include "offload/resolved_plan.h"
#include "offload/tensor_group.h"
#include "platform/device/device.h"
#include "platform/device/host_arena.h"

namespace ferry {

// The part of each image that a rank keeps. An image is cut into equal parts,
// the last of which are filled up with zeros; each is a multiple of
// kImageAlignment, so that gathered they are the image and some padding.
struct ImageShare {
  int rank = 0;
  int ranks = 1;

  // Of an image of so many bytes.
  int64_t bytes(int64_t image_bytes) const {
    return align_for_image((image_bytes + ranks - 1) / ranks);
  }
};

// The state of a block, or of a component: its tensors packed into one blob of
// host memory, which is the only copy of their values while it is attached; or
// a rank's share of that blob; or a blob that lies in SharedImages, where other
// ranks read it too.
//
// Tensors that shared a storage are views of one ImageStorage. To bind them to
// a copy of the image on the device is to exchange the storages' pointers;
// unbound, any use of them is an exception that names tensor and block.
//
//   packed ──attach()──► unbound ◄──unbind()── bound
//                         │   └──────bind()─────►
//                         └─release()──► released: ordinary writable tensors
//                                        on the host, views of the blob, which
//                                        they own, or of a copy of a shared one
//
// Ownership: owns the blob until release(); refers to the tensors' objects,
//   which belong to the modules. The device must outlive it, and the tensors
//   after release().
// Threads: not thread-safe; confined to the worker's step thread.
class BlockImage {
 public:
  // Copies the tensors' values, or the share of them, into host memory of the
  // device. The tensors do not change. RESOURCE_EXHAUSTED without host memory.
  // REQUIRES: the group holds a tensor, and all are as plan_image() requires.
  static absl::StatusOr<std::unique_ptr<BlockImage>> pack(
      Device& device, c10::Device torch_device, const TensorGroup& group,
      ImageShare share = {});
  // The same, as the next one of `images`, which must live until it returns.
  static absl::StatusOr<std::unique_ptr<BlockImage>> pack_shared(
      Device& device, c10::Device torch_device, const TensorGroup& group,
      SharedImages& images);

  BlockImage(const BlockImage&) = delete;
  BlockImage& operator=(const BlockImage&) = delete;

  const std::string& owner() const { return owner_; }
  // Of the image; a multiple of kImageAlignment.
  int64_t bytes() const { return layout_.bytes; }
  // On the host, at host_data(): bytes(), or the share of them.
  int64_t host_bytes() const { return share_.bytes(layout_.bytes); }
  // Of all shares together.
  int64_t gathered_bytes() const { return share_.ranks * host_bytes(); }
  // What copies to the device read.
  const char* host_data() const { return arena_.data(); }
  // Whether other ranks read the blob too.
  bool is_shared() const { return is_shared_; }
  // Opens the share, or all of it, to the host.
  absl::StatusOr<HostAccess> read_host() const {
    return arena_.access(AccessKind::kRead, 0, host_bytes());
  }

  // Makes the tensors views of the image's storage, unbound, and gives up the
  // memory that they had. Throws what LibTorch throws; then nothing changed.
  void attach();
  // Binds the tensors to a copy of the image.
  void bind(void* device_data);
  void unbind();
  // Whether the tensor sees the image's bytes.
  bool holds(const at::Tensor& tensor) const {
    return tensor.has_storage() &&
           image_owner(*tensor.storage().unsafeGetStorageImpl()) == &owner_;
  }
  // Back to ordinary tensors. After an error, or when LibTorch throws, nothing
  // changed. Copies of the image have ended: the caller has synchronized the
  // device. REQUIRES: the share is all of it.
  absl::Status release();
  // The same, with all shares in `whole`: gathered_bytes(), or
  // INVALID_ARGUMENT.
  absl::Status release(HostArena whole);

 private:
  BlockImage(Device& device, std::string owner, c10::Device torch_device,
             ImageLayout layout, ImageShare share)
      : device_(device),
        owner_(std::move(owner)),
        torch_device_(torch_device),
        layout_(std::move(layout)),
        share_(share) {}

  absl::Status fill();
  absl::Status share(SharedImages& images);
  // Copies the tensors' values, or the share of them.
  void write_values(char* data) const;
  void take(const std::vector<NamedTensor>& from);
  absl::Status release_copy();
  // Makes them views of an arena that they own.
  absl::Status give_to_tensors(HostArena& arena);
  // Makes the tensors of each segment views of its storage: all, or none when
  // LibTorch throws.
  void point_at(const std::vector<c10::Storage>& storages);

  Device& device_;
  const std::string owner_;
  const c10::Device torch_device_;
  const ImageLayout layout_;
  const ImageShare share_;
  std::vector<at::Tensor> tensors_;
  HostArena arena_;
  bool is_shared_ = false;
  // Where the tensors of each segment look while the image is attached.
  std::vector<ImageStorage> storages_;
};

}  // namespace ferry
