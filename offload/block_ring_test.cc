#include "offload/block_ring.h"

#include <ATen/ops/arange.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "offload/block_image.h"
#include "offload/tensor_group.h"
#include "offload/testing/checked_platform.h"
#include "offload/testing/toy_module.h"
#include "platform/device/stream_lease.h"

namespace ferry {
namespace {

// Three blocks of one tensor each.
class BlockRingDeathTest : public testing::Test {
 protected:
  BlockRingDeathTest() {
    std::vector<int64_t> bytes;
    for (int i = 0; i < 3; ++i) {
      TensorGroup group = {"block", {{"weight", at::arange(40.0)}}};
      images_.push_back(
          *BlockImage::pack(device(), c10::Device(c10::kCPU), group));
      images_.back()->attach();
      blocks_.push_back(images_.back().get());
      bytes.push_back(images_.back()->bytes());
    }
    // Which has no thread.
    copies_ = *device().acquire_stream(StreamKind::kCompute, "copies");
    ring_ = *BlockRing::create(device(), copies_.get(), bytes, {"ring", 2});
  }
  ~BlockRingDeathTest() override { EXPECT_TRUE(device().synchronize().ok()); }

  SimulatedDevice& device() { return platform_.simulated_device(); }

  SimulatedPlatform platform_{checked_device()};
  std::vector<std::unique_ptr<BlockImage>> images_;
  std::vector<BlockImage*> blocks_;
  StreamLease copies_;
  std::unique_ptr<BlockRing> ring_;
  TensorListOutput output_{{}};
};

TEST_F(BlockRingDeathTest, BrokenContractsEndTheProcess) {
  EXPECT_DEATH((void)ring_->start({}), "!blocks.empty");
  EXPECT_DEATH((void)ring_->pre_forward(0), "0 and 0");
  ASSERT_TRUE(ring_->start(blocks_).ok());
  EXPECT_DEATH((void)ring_->start(blocks_), "blocks_.empty");
  EXPECT_DEATH((void)ring_->pre_forward(3), "3 and 3");
  // On the device, and not.
  EXPECT_DEATH((void)ring_->post_forward(0, output_), "in_use");
  EXPECT_DEATH((void)ring_->post_forward(2, output_), "in_use");
  ASSERT_TRUE(ring_->pre_forward(0).ok());
  EXPECT_DEATH((void)ring_->post_forward(1, output_), "in_use");
  ASSERT_TRUE(ring_->post_forward(0, output_).ok());
  EXPECT_DEATH((void)ring_->post_forward(0, output_), "in_use");
  EXPECT_DEATH((void)ring_->post_forward(static_cast<size_t>(-1), output_),
               "in_use");
}

}  // namespace
}  // namespace ferry
