#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Allocator.h>
#include <c10/core/Device.h>
#include <c10/core/StorageImpl.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "offload/module_tree.h"
#include "offload/tensor_group.h"
#include "platform/base/check.h"
#include "platform/device/device.h"
#include "platform/device/host_arena.h"

namespace ferry {

// Tensors that methods write, and what the package holds for them: values,
// sizes, strides and who shares memory with whom. reset() brings it all back,
// so that every generation begins alike, whatever ran before.
//
// Storages are kept whole, each in memory of its own, since a method may let a
// tensor see more of its storage, or make that larger.
//
//   loose ──pack()──► packed ──bind()──► bound
//     ▲                 └─────release()────┤
//     └────────────────────────────────────┘
//
//   loose   ordinary tensors on the host; keep() copies their values
//   packed  the values are in memory that only copies to the device read, and
//           the tensors have no memory
//   bound   the tensors are in memory of the device
//
// Released, the tensors hold the package's values again: what a generation
// wrote belongs to it alone.
//
// Ownership: refers to the tensors' objects, which belong to the modules, and
//   owns the copy of their values. A device that it was packed for outlives it,
//   and the tensors after release().
// Threads: not thread-safe; confined to the worker's step thread.
// Errors: those of the device. Throws what LibTorch throws.
class WrittenState {
 public:
  // `tensors` are all that see their storages: written_tensors() finds them.
  // REQUIRES: they are dense, strided and on the host.
  explicit WrittenState(std::vector<NamedTensor> tensors = {});

  WrittenState(const WrittenState&) = delete;
  WrittenState& operator=(const WrittenState&) = delete;

  bool is_empty() const { return tensors_.empty(); }
  const std::vector<NamedTensor>& tensors() const { return tensors_; }
  // Of an image of all storages; a multiple of kImageAlignment.
  int64_t bytes() const { return bytes_; }
  // Of the copy that keep() has made.
  int64_t kept_bytes() const { return kept_ ? bytes_ : 0; }
  // Bytes that reset() has copied to a device.
  int64_t reset_bytes() const { return reset_bytes_; }

  // FAILED_PRECONDITION unless it is loose: a backend holds it.
  absl::Status check_loose() const;
  // Copies the values, unless they are kept; bytes that are a mapped file
  // become memory. Before the first method runs.
  void keep();
  // Brings the package's values back, with one copy if they are bound: on the
  // current stream, after what that was given. What was not kept was not
  // written. FAILED_PRECONDITION when it is packed and not bound: a backend
  // that could not give it back holds it.
  absl::Status reset();

  // Moves the package's values into host memory of the device, for tensors on
  // it. After an error, or when LibTorch throws, nothing changed:
  // FAILED_PRECONDITION unless it is loose.
  absl::Status pack(Device& device, c10::Device torch_device);
  // What copies to the device read: bytes(). REQUIRES: packed or bound.
  const char* host_data() const {
    FERRY_CHECK_NE(stage_, Stage::kLoose);
    return arena_.data();
  }
  // Binds the tensors to a copy of host_data() on the device. REQUIRES: packed.
  void bind(char* device_data);
  // Back to ordinary tensors. After an error, or when LibTorch throws, nothing
  // changed. Nothing runs: the caller has synchronized the device. REQUIRES:
  // packed or bound.
  absl::Status release();

 private:
  enum class Stage { kLoose, kPacked, kBound };

  struct Segment {
    c10::intrusive_ptr<c10::StorageImpl> storage;
    int64_t bytes = 0;
    // In the image; a multiple of kImageAlignment.
    int64_t offset = 0;
  };

  // Gives each storage's pointer and size back.
  void restore_storages();
  // Gives the tensors their storages, sizes and strides back.
  void restore_tensors();
  // Exchanges the storages for others with this data: all, or none when
  // LibTorch throws.
  void move_to(c10::Device torch_device,
               absl::FunctionRef<at::DataPtr(const Segment& segment)> data_of);
  // Copies what the package holds into an image.
  void write_values(char* image) const;

  std::vector<NamedTensor> tensors_;
  // For each tensor one like it, as the package has it, and its storage.
  std::vector<at::Tensor> originals_;
  std::vector<size_t> segment_of_;
  std::vector<Segment> segments_;
  int64_t bytes_ = 0;
  int64_t reset_bytes_ = 0;
  Stage stage_ = Stage::kLoose;
  // Loose: the values, once they are kept.
  at::DataPtr kept_;
  // Packed or bound.
  Device* device_ = nullptr;
  c10::Device torch_device_ = c10::kCPU;
  HostArena arena_;
  // Bound.
  char* device_data_ = nullptr;
};

// The tensors of a tree that are written, and all that share their storages.
// `tensor` finds an object by ModuleTensor::identity.
std::vector<NamedTensor> written_tensors(
    const ModuleTree& tree,
    absl::FunctionRef<const at::Tensor&(int64_t identity)> tensor);

}  // namespace ferry
