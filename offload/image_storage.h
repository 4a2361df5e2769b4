#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <c10/core/Storage.h>
#include <c10/core/StorageImpl.h>

#include <cstdint>
#include <string>

namespace ferry {

// The storage that tensors of an image see while the image is attached. To bind
// it is to give it a pointer. Unbound, it has none: LibTorch throws c10::Error
// with a text of ours when an operator asks for the bytes, be it through a view
// that was made while the storage was bound, and before anything runs on the
// device. So a use outside of the block is an error, never a number.
//
// Ownership: shares the storage with the tensors that see it. When it is
//   destroyed, those that are left see an unbound storage of no image.
// Threads: not thread-safe; as the tensors.
class ImageStorage {
 public:
  // Unbound. `owner` names the image; it must live as long as this object, at
  // the same address, by which images are told apart. `error_text` is what the
  // exception says.
  ImageStorage(int64_t bytes, c10::Device device, const std::string* owner,
               std::string error_text);
  ~ImageStorage();
  ImageStorage(ImageStorage&&) noexcept = default;
  ImageStorage& operator=(ImageStorage&&) = delete;

  c10::Storage storage() const { return c10::Storage(storage_); }
  // `data` are the storage's bytes on the device. Neither allocates.
  void bind(void* data);
  void unbind();

 private:
  void set(void* data, const std::string* owner, bool throws);

  const c10::Device device_;
  const std::string* owner_;
  c10::intrusive_ptr<c10::StorageImpl> storage_;
};

// Whether it is the storage of an ImageStorage, or was left behind by one.
bool is_image_storage(const c10::StorageImpl& storage);

// The owner of the ImageStorage; null where there is none (any more).
const std::string* image_owner(const c10::StorageImpl& storage);

// What data_ptr() gives, also of an unbound storage: null then.
const at::DataPtr& unchecked_data_ptr(const c10::StorageImpl& storage);

}  // namespace ferry
