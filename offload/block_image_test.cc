#include "offload/block_image.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/scalar_tensor.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "offload/clone_span.h"
#include "offload/distributed/shared_images.h"
#include "offload/image_layout.h"
#include "offload/resolved_plan.h"
#include "offload/testing/checked_platform.h"
#include "offload/testing/throwing_tensor.h"
#include "platform/os/shared_memory.h"
#include "platform/os/unique_fd.h"

namespace ferry {
namespace {

// Tensors of one block, in every shape that a module may hold.
class BlockImageTest : public testing::Test {
 protected:
  BlockImageTest() : platform_(checked_device()) {
    const at::Tensor base = at::arange(40.0).to(c10::kFloat);
    add("contiguous", base.narrow(0, 0, 6).clone().view({2, 3}));
    add("transposed", at::arange(12.0).reshape({3, 4}).t());
    // Two views that overlap, far into a storage.
    add("view", base.as_strided({2, 3}, {4, 1}, 21));
    add("overlap", base.as_strided({5}, {1}, 26));
    add("expanded", at::arange(5.0).expand({3, 5}));
    add("scalar", at::scalar_tensor(2.5));
    add("empty", at::empty({0, 3}));
    add("bytes", at::arange(7).to(c10::kByte));
    add("bool", at::arange(3).gt(1));
    add("half", at::arange(9.0).to(c10::kHalf));
    add("bfloat16", at::arange(9.0).to(c10::kBFloat16));
    add("float8", at::arange(9.0).to(c10::kFloat8_e4m3fn));
    add("complex", at::arange(4.0).to(c10::kComplexDouble));
    add("conjugate",
        (at::arange(4.0).to(c10::kComplexFloat) * c10::complex<double>(0, 1))
            .conj());
    for (const NamedTensor& item : group_.tensors) {
      expected_.push_back(item.tensor.clone());
      strides_.push_back(item.tensor.strides().vec());
    }
  }

  void add(const std::string& name, const at::Tensor& tensor) {
    group_.owner = "block";
    group_.tensors.push_back({name, tensor});
  }

  std::unique_ptr<BlockImage> attach() {
    auto image = BlockImage::pack(device(), c10::Device(c10::kCPU), group_);
    EXPECT_TRUE(image.ok()) << image.status();
    (*image)->attach();
    return *std::move(image);
  }

  // The image on the device, without rings.
  DeviceArena copy_to_device(const BlockImage& image) {
    DeviceArena arena = *device().allocate(image.bytes(), "copy");
    const StreamLease stream =
        *device().acquire_stream(StreamKind::kTransfer, "copy");
    EXPECT_TRUE(
        device()
            .copy_async(stream.get(), {CopyKind::kHostToDevice, arena.data(),
                                       image.host_data(), image.bytes()})
            .ok());
    EXPECT_TRUE(device().synchronize().ok());
    return arena;
  }

  static std::string host_text(const BlockImage& image) {
    HostAccess access = *image.read_host();
    std::string text(access.data(), static_cast<size_t>(image.host_bytes()));
    EXPECT_EQ(access.end(), absl::OkStatus());
    return text;
  }

  void expect_values() {
    for (size_t i = 0; i < group_.tensors.size(); ++i) {
      const at::Tensor& tensor = group_.tensors[i].tensor;
      EXPECT_EQ(tensor.strides().vec(), strides_[i]) << group_.tensors[i].path;
      EXPECT_EQ(tensor.scalar_type(), expected_[i].scalar_type());
      EXPECT_EQ(tensor.sizes(), expected_[i].sizes());
      EXPECT_EQ(bytes_of(tensor.resolve_conj()),
                bytes_of(expected_[i].resolve_conj()))
          << group_.tensors[i].path;
    }
  }

  SimulatedDevice& device() { return platform_.simulated_device(); }

  SimulatedPlatform platform_;
  TensorGroup group_;
  std::vector<at::Tensor> expected_;
  std::vector<std::vector<int64_t>> strides_;
};

TEST_F(BlockImageTest, BindsEveryKindOfTensor) {
  const auto image = attach();
  const DeviceArena arena = copy_to_device(*image);
  image->bind(arena.data());
  expect_values();
  for (const NamedTensor& item : group_.tensors) {
    EXPECT_EQ(image->holds(item.tensor), item.tensor.numel() > 0) << item.path;
  }
  image->unbind();
}

TEST_F(BlockImageTest, SegmentsAreAligned) {
  const ImageLayout layout = plan_image(group_.tensors);
  EXPECT_EQ(layout.bytes % kImageAlignment, 0);
  // The two views have one segment, and the empty tensor none.
  EXPECT_EQ(layout.segments.size(), group_.tensors.size() - 2);
  for (const ImageLayout::Segment& segment : layout.segments) {
    EXPECT_EQ(segment.offset % kImageAlignment, 0);
  }
}

// Tensors that shared no storage share none afterwards, and those that did do.
TEST_F(BlockImageTest, EachTensorEndsWhereItsStorageDid) {
  auto image = attach();
  const DeviceArena arena = copy_to_device(*image);
  image->bind(arena.data());
  const at::Tensor& contiguous = group_.tensors[0].tensor;
  const at::Tensor& transposed = group_.tensors[1].tensor;
  EXPECT_FALSE(contiguous.is_alias_of(transposed));
  EXPECT_TRUE(group_.tensors[2].tensor.is_alias_of(group_.tensors[3].tensor));
  EXPECT_ANY_THROW(contiguous.as_strided({7}, {1}, 0));
  image->unbind();
  ASSERT_EQ(image->release(), absl::OkStatus());
  EXPECT_FALSE(contiguous.is_alias_of(transposed));
  EXPECT_TRUE(group_.tensors[2].tensor.is_alias_of(group_.tensors[3].tensor));
  EXPECT_ANY_THROW(contiguous.as_strided({7}, {1}, 0));
}

TEST_F(BlockImageTest, AliasesStay) {
  const auto image = attach();
  const DeviceArena arena = copy_to_device(*image);
  image->bind(arena.data());
  const at::Tensor& view = group_.tensors[2].tensor;
  const at::Tensor& overlap = group_.tensors[3].tensor;
  EXPECT_EQ(static_cast<const float*>(view.const_data_ptr()) + 5,
            static_cast<const float*>(overlap.const_data_ptr()));
  image->unbind();
}

TEST_F(BlockImageTest, ReleasedTensorsAreOrdinaryAndOwnTheImage) {
  auto image = attach();
  ASSERT_EQ(image->release(), absl::OkStatus());
  image.reset();
  expect_values();
  group_.tensors[0].tensor.fill_(3);
  group_.tensors[3].tensor.fill_(4);
  EXPECT_EQ(group_.tensors[2].tensor[1][1].item<float>(), 4);
  EXPECT_GT(device().stats().host.bytes_in_use, 0);
  group_.tensors.clear();
  EXPECT_EQ(device().stats().host.bytes_in_use, 0);
}

// Of any number of ranks: equal parts, which put together are the image and
// zeros, whatever its tensors are.
TEST_F(BlockImageTest, SharesPutTogetherAreTheImage) {
  const auto whole =
      *BlockImage::pack(device(), c10::Device(c10::kCPU), group_);
  const std::string image = host_text(*whole);
  for (const int ranks : {1, 2, 3, 4, 7, 100}) {
    std::string together;
    for (int rank = 0; rank < ranks; ++rank) {
      const auto share = *BlockImage::pack(device(), c10::Device(c10::kCPU),
                                           group_, {rank, ranks});
      EXPECT_EQ(share->bytes(), whole->bytes());
      EXPECT_EQ(share->host_bytes() % kImageAlignment, 0);
      EXPECT_LE(share->host_bytes(), whole->bytes() / ranks + kImageAlignment);
      EXPECT_EQ(share->gathered_bytes(), ranks * share->host_bytes());
      together += host_text(*share);
    }
    EXPECT_GE(together.size(), image.size());
    EXPECT_EQ(together, image + std::string(together.size() - image.size(), 0));
  }
}

// A block that is smaller than there are ranks.
TEST_F(BlockImageTest, SharesOfAFewBytesAreZerosOnMostRanks) {
  TensorGroup tiny;
  tiny.tensors.push_back({"three", at::arange(3).to(c10::kByte)});
  for (int rank = 0; rank < 4; ++rank) {
    const auto share =
        *BlockImage::pack(device(), c10::Device(c10::kCPU), tiny, {rank, 4});
    std::string expected(kImageAlignment, 0);
    if (rank == 0) expected.replace(1, 2, "\x01\x02");
    EXPECT_EQ(host_text(*share), expected) << rank;
  }
}

// What copies come back as tensors that each rank may write.
TEST_F(BlockImageTest, ReleasedFromSharedImagesTheyAreCopies) {
  const UniqueFd file = *make_shared_memory("ferry-host");
  SharedImages images(file.get(), /*writes=*/true);
  auto image = *BlockImage::pack_shared(device(), c10::Device(c10::kCPU),
                                        group_, images);
  EXPECT_TRUE(image->is_shared());
  EXPECT_EQ(device().stats().host.bytes_in_use, 0);
  const std::string before = host_text(*image);
  image->attach();
  ASSERT_EQ(image->release(), absl::OkStatus());
  expect_values();
  group_.tensors[0].tensor.fill_(3);
  SharedImages readers(file.get(), /*writes=*/false);
  const HostArena other = *readers.add(device(), image->bytes(), "block",
                                       [](char* /*data*/) { FAIL(); });
  HostAccess access = *other.access(AccessKind::kRead, 0, image->bytes());
  EXPECT_EQ(std::string(access.data(), before.size()), before);
  EXPECT_EQ(access.end(), absl::OkStatus());
}

// All tensors move, or none, whichever LibTorch does not want to.
TEST_F(BlockImageTest, WhatLibtorchThrowsChangesNothing) {
  for (size_t i = 0; i < group_.tensors.size(); i += 4) {
    SCOPED_TRACE(i);
    at::Tensor& tensor = group_.tensors[i].tensor;
    tensor = make_throwing_tensor(tensor);
    auto image = BlockImage::pack(device(), c10::Device(c10::kCPU), group_);
    ASSERT_TRUE(image.ok()) << image.status();
    throw_once(tensor);
    EXPECT_THROW((*image)->attach(), std::bad_alloc);
    expect_values();
    (*image)->attach();
    throw_once(tensor);
    EXPECT_THROW((void)(*image)->release(), std::bad_alloc);
    const DeviceArena arena = copy_to_device(**image);
    (*image)->bind(arena.data());
    expect_values();
    (*image)->unbind();
    ASSERT_EQ((*image)->release(), absl::OkStatus());
    expect_values();
  }
}

TEST_F(BlockImageTest, BrokenContractsEndTheProcess) {
  const auto pack = [&](const TensorGroup& group, ImageShare share) {
    return BlockImage::pack(device(), c10::Device(c10::kCPU), group, share);
  };
  EXPECT_DEATH((void)pack({"block", {}}, {}), "!group.tensors.empty");
  for (const at::Tensor& tensor :
       {at::arange(4.0).to_sparse(), at::arange(4.0).to(c10::kMeta)}) {
    EXPECT_DEATH((void)pack({"block", {{"odd", tensor}}}, {}), "kStrided");
  }
  EXPECT_DEATH((void)pack(group_, {2, 2}), "share.rank < share.ranks");
  const auto image = pack(group_, {0, 2});
  (*image)->attach();
  EXPECT_DEATH((void)(*image)->release(), "share_.ranks == 1 \\(2 and 1\\)");
  EXPECT_EQ((*image)->release(*device().allocate_host(10, "small")).code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(BlockImageTest, CanBeAttachedAgain) {
  for (int round = 0; round < 3; ++round) {
    const auto image = attach();
    const DeviceArena arena = copy_to_device(*image);
    image->bind(arena.data());
    expect_values();
    image->unbind();
    ASSERT_EQ(image->release(), absl::OkStatus());
  }
  expect_values();
}

TEST_F(BlockImageTest, CloneSpanKeepsSizesStridesAndBytes) {
  for (size_t i = 0; i < group_.tensors.size(); ++i) {
    const at::Tensor& tensor = group_.tensors[i].tensor;
    if (tensor.numel() == 0) continue;
    const at::Tensor clone = clone_span(tensor);
    EXPECT_EQ(clone.strides(), tensor.strides());
    EXPECT_NE(clone.const_data_ptr(), tensor.const_data_ptr());
    EXPECT_EQ(bytes_of(clone.resolve_conj()), bytes_of(tensor.resolve_conj()))
        << group_.tensors[i].path;
  }
}

}  // namespace
}  // namespace ferry
