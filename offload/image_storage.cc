#include "offload/image_storage.h"

#include <utility>

namespace ferry {
namespace {

// LibTorch sets the flag by which a storage throws, for tensors without bytes,
// and has no function that clears it. An explicit instantiation may name a
// private member; image_storage_test fails when the flag comes to mean
// something else, and this file does not compile when it goes.
bool& throws_on_access(c10::StorageImpl& storage);

template <bool c10::StorageImpl::*Flag>
struct Access {
  friend bool& throws_on_access(c10::StorageImpl& storage) {
    return storage.*Flag;
  }
};
template struct Access<&c10::StorageImpl::throw_on_immutable_data_ptr_>;

// Marks the pointers of images. Frees nothing: the image does.
void leave_to_image(void* /*owner*/) {}

c10::intrusive_ptr<c10::StorageImpl> make_storage(int64_t bytes,
                                                  c10::Device device) {
  return c10::make_intrusive<c10::StorageImpl>(
      c10::StorageImpl::use_byte_size_t(), static_cast<size_t>(bytes),
      at::DataPtr(nullptr, device), /*allocator=*/nullptr,
      /*resizable=*/false);
}

}  // namespace

ImageStorage::ImageStorage(int64_t bytes, c10::Device device,
                           const std::string* owner, std::string error_text)
    : device_(device), owner_(owner), storage_(make_storage(bytes, device)) {
  storage_->release_data_and_set_meta_custom_data_ptr_error_msg_(
      std::move(error_text));
  unbind();
}

ImageStorage::~ImageStorage() {
  // Not after a move.
  if (storage_) set(nullptr, nullptr, /*throws=*/true);
}

void ImageStorage::bind(void* data) { set(data, owner_, /*throws=*/false); }

void ImageStorage::unbind() { set(nullptr, owner_, /*throws=*/true); }

void ImageStorage::set(void* data, const std::string* owner, bool throws) {
  throws_on_access(*storage_) = throws;
  // Makes LibTorch look at the flag again.
  storage_->set_data_ptr_noswap(at::DataPtr(
      data, const_cast<std::string*>(owner), leave_to_image, device_));
}

bool is_image_storage(const c10::StorageImpl& storage) {
  return unchecked_data_ptr(storage).get_deleter() == leave_to_image;
}

const std::string* image_owner(const c10::StorageImpl& storage) {
  if (!is_image_storage(storage)) return nullptr;
  return static_cast<const std::string*>(
      unchecked_data_ptr(storage).get_context());
}

const at::DataPtr& unchecked_data_ptr(const c10::StorageImpl& storage) {
  // There is no const form of it.
  return const_cast<c10::StorageImpl&>(storage)._mutable_data_ptr_no_checks();
}

}  // namespace ferry
