#include "offload/image_storage.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "offload/block_image.h"
#include "offload/clone_span.h"
#include "offload/forward_output.h"
#include "offload/hook_registry.h"
#include "offload/model_hook.h"
#include "offload/placement_backend.h"
#include "offload/tensor_group.h"
#include "offload/testing/checked_platform.h"
#include "offload/testing/toy_module.h"
#include "offload/torch_status.h"

namespace ferry {
namespace {

constexpr char kText[] = "blocks.0.weight: is not there";

class ImageStorageTest : public testing::Test {
 protected:
  c10::StorageImpl& impl() {
    return *storage_.storage().unsafeGetStorageImpl();
  }
  // What LibTorch says to each way to ask for the bytes.
  std::vector<std::string> errors() {
    std::vector<std::string> texts;
    const std::function<void()> ways[] = {
        [this] { (void)impl().data(); },
        [this] { (void)impl().mutable_data(); },
        [this] { (void)impl().data_ptr(); },
        [this] { (void)impl().mutable_data_ptr(); },
    };
    for (const auto& way : ways) {
      texts.emplace_back(call_torch("way", way).message());
    }
    return texts;
  }

  const std::string owner_ = "blocks.0";
  char bytes_[16] = {};
  ImageStorage storage_{16, c10::Device(c10::kCPU), &owner_, kText};
};

// Notices if LibTorch's flag comes to mean something else.
TEST_F(ImageStorageTest, ThrowsWhileItIsUnboundAndOnlyThen) {
  const std::vector<std::string> thrown(4,
                                        "way: blocks.0.weight: is not there");
  const std::vector<std::string> nothing(4);
  EXPECT_EQ(errors(), thrown);
  for (int round = 0; round < 3; ++round) {
    storage_.bind(bytes_);
    EXPECT_EQ(errors(), nothing);
    EXPECT_EQ(impl().data(), bytes_);
    storage_.unbind();
    EXPECT_EQ(errors(), thrown);
  }
}

TEST_F(ImageStorageTest, WhatIsNoByteCanBeAskedFor) {
  EXPECT_EQ(impl().nbytes(), 16u);
  EXPECT_EQ(impl().device(), c10::Device(c10::kCPU));
  EXPECT_EQ(unchecked_data_ptr(impl()).get(), nullptr);
  storage_.bind(bytes_);
  EXPECT_EQ(unchecked_data_ptr(impl()).get(), bytes_);
}

TEST_F(ImageStorageTest, KnowsItsImageUntilThatIsGone) {
  EXPECT_EQ(image_owner(impl()), &owner_);
  storage_.bind(bytes_);
  EXPECT_EQ(image_owner(impl()), &owner_);
  c10::Storage left;
  {
    const ImageStorage other(16, c10::Device(c10::kCPU), &owner_, kText);
    left = other.storage();
  }
  EXPECT_TRUE(is_image_storage(*left.unsafeGetStorageImpl()));
  EXPECT_EQ(image_owner(*left.unsafeGetStorageImpl()), nullptr);
  EXPECT_ANY_THROW((void)left.data());
  const at::Tensor ordinary = at::ones({3});
  EXPECT_FALSE(is_image_storage(*ordinary.storage().unsafeGetStorageImpl()));
}

struct Use {
  const char* name;
  // Of a tensor of a block, with a view of it that was made while the block
  // was bound.
  std::function<void(const at::Tensor& tensor, const at::Tensor& view)> run;
};

const std::vector<Use>& uses() {
  static const auto* const kUses = new std::vector<Use>{
      {"read", [](const auto& t, const auto&) { (void)t.clone(); }},
      {"read an element",
       [](const auto& t, const auto&) { (void)t[1][1].item(); }},
      {"convert",
       [](const auto& t, const auto&) {
         (void)t.to(c10::kDouble, /*non_blocking=*/false, /*copy=*/true);
       }},
      {"make contiguous",
       [](const auto& t, const auto&) { (void)t.t().contiguous(); }},
      {"read a new view",
       [](const auto& t, const auto&) { (void)t.narrow(0, 1, 1).clone(); }},
      {"read an old view", [](const auto&, const auto& v) { (void)v.clone(); }},
      {"concatenate",
       [](const auto& t, const auto& v) {
         (void)at::cat({v, t.flatten()});
       }},
      {"write", [](const auto& t, const auto&) { t.zero_(); }},
      {"write an old view", [](const auto&, const auto& v) { v.fill_(1); }},
      {"copy into it",
       [](const auto& t, const auto&) {
         t.copy_(at::ones(t.sizes()).to(t.scalar_type()));
       }},
      {"copy from it",
       [](const auto& t, const auto&) { at::empty_like(t).copy_(t); }},
      {"compare",
       [](const auto& t, const auto&) {
         (void)at::equal(t, at::ones(t.sizes()).to(t.scalar_type()));
       }},
      {"ask for the pointer",
       [](const auto& t, const auto&) { (void)t.const_data_ptr(); }},
      {"ask for a pointer to write",
       [](const auto& t, const auto&) { (void)t.mutable_data_ptr(); }},
      {"copy it as hooks do",
       [](const auto&, const auto& v) { (void)clone_span(v); }},
  };
  return *kUses;
}

// Types have no value that could tell: any byte is a plausible int8.
TEST(UnboundTensors, AnyUseOfAnyTypeIsAnErrorThatNamesTensorAndBlock) {
  SimulatedPlatform platform(checked_device());
  SimulatedDevice& device = platform.simulated_device();
  for (const c10::ScalarType type :
       {c10::kByte, c10::kChar, c10::kShort, c10::kInt, c10::kLong, c10::kBool,
        c10::kHalf, c10::kBFloat16, c10::kFloat, c10::kDouble,
        c10::kFloat8_e4m3fn, c10::kFloat8_e5m2, c10::kComplexFloat,
        c10::kComplexDouble}) {
    SCOPED_TRACE(c10::toString(type));
    const at::Tensor tensor = at::arange(6).reshape({2, 3}).to(type);
    TensorGroup group{"dit.blocks.1", {{"dit.blocks.1.weight", tensor}}};
    const auto image = *BlockImage::pack(device, c10::Device(c10::kCPU), group);
    image->attach();
    DeviceArena arena = *device.allocate(image->bytes(), "slot");
    image->bind(arena.data());
    const at::Tensor view = tensor.view({6}).narrow(0, 2, 3);
    image->unbind();
    for (const Use& use : uses()) {
      const absl::Status status =
          call_torch("step", [&] { use.run(tensor, view); });
      EXPECT_EQ(status.code(), absl::StatusCode::kInternal) << use.name;
      EXPECT_EQ(status.message(),
                "step: dit.blocks.1.weight: is used outside of dit.blocks.1, "
                "when its values are not on the device")
          << use.name;
    }
    ASSERT_EQ(image->release(), absl::OkStatus());
    // A view that outlived the image still has no bytes.
    EXPECT_FALSE(call_torch("late", [&] { (void)view.clone(); }).ok());
    EXPECT_TRUE(call_torch("late", [&] { (void)tensor.clone(); }).ok());
    ASSERT_TRUE(arena.free().ok());
  }
}

// Runs as a free function of the program does: between the blocks.
class FreeFunction final : public ModelHook {
 public:
  explicit FreeFunction(std::function<void()> run) : run_(std::move(run)) {}
  const std::string& name() const override { return name_; }
  absl::Status pre_forward() override {
    run_();
    return absl::OkStatus();
  }
  absl::Status post_forward(ForwardOutput& /*output*/) override {
    return absl::OkStatus();
  }

 private:
  const std::string name_ = "free function";
  const std::function<void()> run_;
};

// On a device that checks its orders, and on one that does not.
TEST(UnboundTensors, APassThatUsesOneFailsAndTheNextOneDoesNot) {
  for (const bool check : {true, false}) {
    for (const Use& use : uses()) {
      SCOPED_TRACE(use.name);
      SimulatedDeviceOptions options = checked_device();
      options.check = check;
      SimulatedPlatform platform(options);
      ToyModule module({});
      ToyModule twin({});
      const at::Tensor extra = at::ones({2, 3}).to(c10::kChar);
      module.add_tensor("dit_0.blocks.3", "extra", extra);
      PlacementBackend backend(platform, layerwise_policy(), {});
      ASSERT_EQ(backend.enable(module), absl::OkStatus());
      HookRegistry& hooks = *module.components()[0].stacks[0].blocks[1].hooks;
      ASSERT_TRUE(hooks
                      .add(std::make_unique<FreeFunction>(
                          [&] { use.run(extra, extra.view({6})); }))
                      .ok());
      const auto failed = module.run(0, toy_input());
      EXPECT_EQ(failed.status().message(),
                "dit_0.blocks.1: dit_0.blocks.3.extra: is used outside of "
                "dit_0.blocks.3, when its values are not on the device");
      ASSERT_TRUE(hooks.remove("free function").ok());
      const auto next = module.run(0, toy_input());
      ASSERT_TRUE(next.ok()) << next.status();
      EXPECT_EQ(bytes_of(*next), bytes_of(*twin.run(0, toy_input())));
      ASSERT_EQ(backend.disable(), absl::OkStatus());
      EXPECT_EQ(bytes_of(extra), std::string(6, 1));
    }
  }
}

}  // namespace
}  // namespace ferry
