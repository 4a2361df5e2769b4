#include "offload/written_state.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <functional>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "offload/resolved_plan.h"
#include "offload/testing/checked_platform.h"
#include "offload/testing/throwing_tensor.h"
#include "platform/device/device_arena.h"
#include "platform/device/simulated/fault_plan.h"

namespace ferry {
namespace {

// Two objects on one storage, a part of a larger one, one of no elements, and
// one of another type.
std::vector<NamedTensor> some_tensors() {
  const at::Tensor shared = at::arange(6.0).reshape({2, 3});
  return {{"shared", shared},
          {"transposed", shared.t()},
          {"part", at::arange(20.0).narrow(0, 5, 4)},
          {"nothing", at::empty({0})},
          {"count", at::arange(1)}};
}

// What can be seen of tensors: bytes, sizes, strides, and who shares memory.
std::vector<std::string> look_at(const std::vector<NamedTensor>& tensors) {
  std::vector<std::string> seen;
  for (const NamedTensor& item : tensors) {
    std::string text = bytes_of(item.tensor);
    for (const int64_t size : item.tensor.sizes()) {
      text += " " + std::to_string(size);
    }
    for (const int64_t stride : item.tensor.strides()) {
      text += "/" + std::to_string(stride);
    }
    text += std::string(item.tensor.dtype().name());
    for (const NamedTensor& other : tensors) {
      text += item.tensor.is_alias_of(other.tensor) ? "=" : "!";
    }
    seen.push_back(std::move(text));
  }
  return seen;
}

using Tensors = const std::vector<NamedTensor>&;

// What methods do to such tensors.
const std::vector<std::pair<std::string, std::function<void(Tensors)>>>&
writes() {
  static const std::vector<std::pair<std::string, std::function<void(Tensors)>>>
      kWrites = {
          {"values", [](Tensors t) { t[0].tensor.add_(1); }},
          {"a view", [](Tensors t) { t[2].tensor.narrow(0, 1, 1).zero_(); }},
          {"t_", [](Tensors t) { t[0].tensor.t_(); }},
          {"unsqueeze_", [](Tensors t) { t[4].tensor.unsqueeze_(0); }},
          {"squeeze_", [](Tensors t) { t[4].tensor.squeeze_(0).add_(3); }},
          {"smaller", [](Tensors t) { t[0].tensor.resize_({2}).add_(2); }},
          // The rest of the storage is the package's, too.
          {"more of it", [](Tensors t) { t[2].tensor.resize_({15}).mul_(2); }},
          {"larger", [](Tensors t) { t[2].tensor.resize_({5000}).zero_(); }},
          {"of nothing", [](Tensors t) { t[3].tensor.resize_({9}).fill_(4); }},
          {"set_ of itself",
           [](Tensors t) { t[4].tensor.set_(at::zeros({3}, at::kLong)); }},
          {"set_ of another",
           [](Tensors t) { t[0].tensor.set_(t[2].tensor).neg_(); }},
          {"as_strided_",
           [](Tensors t) { t[2].tensor.as_strided_({2}, {9}, 1).add_(1); }},
          {"set_data", [](Tensors t) {
             t[1].tensor.set_data(at::zeros({2, 2}));
           }}};
  return kWrites;
}

// On the host, or bound to a device.
class WrittenStateTest : public testing::TestWithParam<bool> {
 protected:
  WrittenStateTest() : tensors_(some_tensors()), state_(tensors_) {
    seen_ = look_at(tensors_);
    if (GetParam()) place();
    state_.keep();
  }
  ~WrittenStateTest() override {
    if (GetParam()) take_down();
    EXPECT_EQ(look_at(tensors_), seen_);
    EXPECT_EQ(device().violations(), std::vector<std::string>());
  }

  SimulatedDevice& device() { return platform_.simulated_device(); }

  void place() {
    arena_ = *device().allocate(state_.bytes(), "written");
    ASSERT_EQ(state_.pack(device(), c10::Device(c10::kCPU)), absl::OkStatus());
    const Stream stream = device().current_stream();
    ASSERT_EQ(
        device().copy_async(stream, {CopyKind::kHostToDevice, arena_.data(),
                                     state_.host_data(), state_.bytes()}),
        absl::OkStatus());
    state_.bind(arena_.data());
    ASSERT_EQ(device().mark_access(stream, AccessKind::kWrite, arena_.data(),
                                   state_.bytes()),
              absl::OkStatus());
  }

  void take_down() {
    ASSERT_EQ(device().synchronize(), absl::OkStatus());
    ASSERT_EQ(state_.release(), absl::OkStatus());
    ASSERT_EQ(arena_.free(), absl::OkStatus());
  }

  SimulatedPlatform platform_{checked_device()};
  std::vector<NamedTensor> tensors_;
  WrittenState state_;
  std::vector<std::string> seen_;
  DeviceArena arena_;
};

INSTANTIATE_TEST_SUITE_P(Places, WrittenStateTest, testing::Bool());

TEST_P(WrittenStateTest, WhateverIsWrittenGoesBack) {
  EXPECT_EQ(look_at(tensors_), seen_);
  for (const auto& [first, write_first] : writes()) {
    for (const auto& [second, write_second] : writes()) {
      if (first == second) continue;
      SCOPED_TRACE(first + ", " + second);
      write_first(tensors_);
      EXPECT_NE(look_at(tensors_), seen_);
      ASSERT_EQ(state_.reset(), absl::OkStatus());
      EXPECT_EQ(look_at(tensors_), seen_);
      write_second(tensors_);
      write_first(tensors_);
      ASSERT_EQ(state_.reset(), absl::OkStatus());
      EXPECT_EQ(look_at(tensors_), seen_);
      if (HasFailure()) return;
    }
  }
}

TEST_P(WrittenStateTest, AResetIsOneCopy) {
  const int64_t copies = device().stats().host_to_device.count;
  for (int generation = 0; generation < 3; ++generation) {
    tensors_[0].tensor.add_(1);
    ASSERT_EQ(state_.reset(), absl::OkStatus());
  }
  const int64_t bytes = GetParam() ? 3 * state_.bytes() : 0;
  EXPECT_EQ(device().stats().host_to_device.count,
            copies + (GetParam() ? 3 : 0));
  EXPECT_EQ(state_.reset_bytes(), bytes);
  EXPECT_EQ(state_.kept_bytes(), GetParam() ? 0 : state_.bytes());
}

TEST_P(WrittenStateTest, WhatIsWrittenNowIsLostWhenItMoves) {
  if (!GetParam()) GTEST_SKIP() << "it does not move";
  for (int round = 0; round < 3; ++round) {
    tensors_[0].tensor.add_(1);
    tensors_[2].tensor.resize_({4000});
    take_down();
    EXPECT_EQ(look_at(tensors_), seen_);
    // Ordinary tensors.
    tensors_[0].tensor.mul_(2);
    tensors_[0].tensor.mul_(0.5);
    place();
    EXPECT_EQ(look_at(tensors_), seen_);
  }
}

TEST_P(WrittenStateTest, WhatRanOnTheHostIsNotPacked) {
  if (GetParam()) GTEST_SKIP() << "it is packed";
  tensors_[0].tensor.add_(1);
  ASSERT_EQ(state_.reset(), absl::OkStatus());
  place();
  EXPECT_EQ(look_at(tensors_), seen_);
  take_down();
}

TEST_P(WrittenStateTest, ADeviceThatFailsIsAStatus) {
  tensors_[0].tensor.add_(1);
  device().faults().fail(FaultPoint::kCopy, 1);
  EXPECT_EQ(state_.reset().ok(), !GetParam());
  device().faults().fail(FaultPoint::kCopy, 1000);
  ASSERT_EQ(state_.reset(), absl::OkStatus());
  EXPECT_EQ(look_at(tensors_), seen_);
}

// All tensors move, or none, whichever LibTorch does not want to.
TEST(WrittenState, WhatLibtorchThrowsChangesNothing) {
  SimulatedPlatform platform{checked_device()};
  SimulatedDevice& device = platform.simulated_device();
  for (size_t i = 0; i < some_tensors().size(); ++i) {
    SCOPED_TRACE(i);
    std::vector<NamedTensor> tensors = some_tensors();
    at::Tensor& tensor = tensors[i].tensor;
    tensor = make_throwing_tensor(tensor);
    const auto seen = look_at(tensors);
    WrittenState state(tensors);
    state.keep();
    throw_once(tensor);
    EXPECT_THROW((void)state.pack(device, c10::Device(c10::kCPU)),
                 std::bad_alloc);
    EXPECT_EQ(look_at(tensors), seen);
    ASSERT_EQ(state.reset(), absl::OkStatus());
    ASSERT_EQ(state.pack(device, c10::Device(c10::kCPU)), absl::OkStatus());
    throw_once(tensor);
    EXPECT_THROW((void)state.release(), std::bad_alloc);
    EXPECT_EQ(state.reset().code(), absl::StatusCode::kFailedPrecondition);
    ASSERT_EQ(state.release(), absl::OkStatus());
    EXPECT_EQ(look_at(tensors), seen);
    ASSERT_EQ(state.reset(), absl::OkStatus());
    EXPECT_EQ(look_at(tensors), seen);
  }
}

TEST(WrittenStateDeathTest, BrokenContractsEndTheProcess) {
  for (const at::Tensor& tensor :
       {at::arange(4.0).to_sparse(), at::arange(4.0).to(c10::kMeta)}) {
    EXPECT_DEATH(WrittenState({{"odd", tensor}}), "kStrided");
  }
  SimulatedPlatform platform{checked_device()};
  WrittenState state(some_tensors());
  EXPECT_DEATH((void)state.host_data(), "stage_ != Stage::kLoose");
  EXPECT_DEATH(state.bind(nullptr), "stage_ == Stage::kPacked");
  EXPECT_DEATH((void)state.release(), "stage_ != Stage::kLoose");
  ASSERT_EQ(state.pack(platform.simulated_device(), c10::Device(c10::kCPU)),
            absl::OkStatus());
  std::vector<char> memory(static_cast<size_t>(state.bytes()));
  state.bind(memory.data());
  EXPECT_DEATH(state.bind(memory.data()), "stage_ == Stage::kPacked");
  ASSERT_EQ(state.release(), absl::OkStatus());
  EXPECT_DEATH((void)state.release(), "stage_ != Stage::kLoose");
}

TEST(WrittenState, OfNothingCostsNothing) {
  WrittenState state;
  state.keep();
  EXPECT_EQ(state.reset(), absl::OkStatus());
  EXPECT_EQ(state.bytes(), 0);
  EXPECT_TRUE(state.is_empty());
}

TEST(WrittenState, HoldsAllThatShareAStorage) {
  ToyModule module({});
  const at::Tensor buffer = at::arange(9.0);
  module.add_tensor("dit_0", "view", buffer.narrow(0, 3, 2));
  module.add_tensor("dit_0", "buffer", buffer, "is written by a test", true);
  std::vector<std::string> paths;
  for (const NamedTensor& item : module.written_state().tensors()) {
    paths.push_back(item.path);
  }
  EXPECT_EQ(paths, (std::vector<std::string>{"dit_0.counter", "dit_0.view",
                                             "dit_0.buffer"}));
  // The whole storage, once.
  EXPECT_EQ(module.written_state().bytes(), 2 * kImageAlignment);
}

}  // namespace
}  // namespace ferry
