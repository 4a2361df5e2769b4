// Gathers between all GPUs of this machine, one rank on each, by NCCL. With one
// GPU the group has one rank.

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "platform/device/cuda/cuda_device.h"
#include "platform/device/cuda/cuda_device_options.h"
#include "platform/device/cuda/cuda_platform.h"
#include "platform/device/cuda/cuda_runtime.h"
#include "platform/device/cuda/testing/fake_cuda_torch.h"
#include "platform/device/device.h"
#include "platform/device/device_arena.h"
#include "platform/device/host_arena.h"
#include "platform/device/stream.h"
#include "platform/device/stream_lease.h"
#include "platform/distributed/in_process/in_process_store.h"
#include "platform/distributed/nccl/nccl_communicator.h"
#include "platform/distributed/nccl/nccl_library.h"
#include "platform/distributed/testing/rank_threads.h"

namespace ferry {
namespace {

// One rank on a GPU of its own.
class GpuRank {
 public:
  GpuRank(NcclLibrary& nccl, InProcessStore& store, int rank, int size)
      : size_(size) {
    CudaDeviceOptions options;
    options.index = rank;
    platform_ = *CudaPlatform::create(options, std::make_unique<CudaRuntime>(),
                                      std::make_unique<FakeCudaTorch>());
    stream_ = *device().acquire_stream(StreamKind::kTransfer, "gather");
    auto joined = NcclCommunicator::join(nccl, device(), store, rank, size,
                                         NcclOptions{});
    EXPECT_TRUE(joined.ok()) << joined.status();
    if (joined.ok()) communicator_ = *std::move(joined);
  }

  CudaDevice& device() { return *platform_->device(); }
  NcclCommunicator* communicator() { return communicator_.get(); }

  // Gathers `bytes` bytes of 'a' + rank from each rank, and compares.
  void gather(int64_t bytes) {
    const HostArena in = *device().allocate_host(bytes, "in");
    const HostArena out = *device().allocate_host(size_ * bytes, "out");
    const DeviceArena shard = *device().allocate(bytes, "shard");
    const DeviceArena slot = *device().allocate(size_ * bytes, "slot");
    std::fill_n(in.data(), bytes,
                static_cast<char>('a' + communicator_->rank()));
    absl::Status status = device().copy_async(
        stream_.get(),
        {CopyKind::kHostToDevice, shard.data(), in.data(), bytes});
    status.Update(communicator_->all_gather(stream_.get(), shard.data(),
                                            slot.data(), bytes));
    status.Update(device().copy_async(
        stream_.get(),
        {CopyKind::kDeviceToHost, out.data(), slot.data(), size_ * bytes}));
    status.Update(device().synchronize(stream_.get()));
    EXPECT_TRUE(status.ok()) << status;
    EXPECT_TRUE(communicator_->status().ok()) << communicator_->status();
    for (int i = 0; i < size_; ++i) {
      const char* const begin = out.data() + i * bytes;
      EXPECT_EQ(std::count(begin, begin + bytes, static_cast<char>('a' + i)),
                bytes)
          << "of rank " << i;
    }
  }

 private:
  const int size_;
  std::unique_ptr<CudaPlatform> platform_;
  StreamLease stream_;
  std::unique_ptr<NcclCommunicator> communicator_;
};

class GpuNcclTest : public testing::Test {
 protected:
  // Skips the test where there is no GPU, unless FERRY_REQUIRE_GPU says that
  // there is one.
  void SetUp() override {
    const auto platform = CudaPlatform::create(
        CudaDeviceOptions(), std::make_unique<CudaRuntime>(),
        std::make_unique<FakeCudaTorch>());
    absl::Status status = platform.status();
    if (status.ok()) {
      auto nccl = NcclLibrary::open();
      status = nccl.status();
      if (status.ok()) nccl_ = *std::move(nccl);
    }
    if (!status.ok()) {
      if (std::getenv("FERRY_REQUIRE_GPU") != nullptr) FAIL() << status;
      GTEST_SKIP() << status.message();
    }
    ASSERT_EQ(CudaRuntime().get_device_count(&size_), cudaSuccess);
  }

  int size_ = 0;
  std::unique_ptr<NcclLibrary> nccl_;
  InProcessStore store_;
};

TEST_F(GpuNcclTest, GathersBytes) {
  run_ranks(size_, [this](int index) {
    GpuRank rank(*nccl_, store_, index, size_);
    ASSERT_NE(rank.communicator(), nullptr);
    for (const int64_t bytes : {1, 255, 4096, 1000003, 64 << 20}) {
      rank.gather(bytes);
    }
  });
}

TEST_F(GpuNcclTest, ManyGathersMayBeUnderWay) {
  run_ranks(size_, [this](int index) {
    GpuRank rank(*nccl_, store_, index, size_);
    ASSERT_NE(rank.communicator(), nullptr);
    const StreamLease stream =
        *rank.device().acquire_stream(StreamKind::kTransfer, "gather");
    const DeviceArena in = *rank.device().allocate(1 << 20, "in");
    const DeviceArena out = *rank.device().allocate(size_ << 20, "out");
    for (int i = 0; i < 500; ++i) {
      ASSERT_TRUE(rank.communicator()
                      ->all_gather(stream.get(), in.data(), out.data(), 1 << 20)
                      .ok());
    }
    ASSERT_TRUE(rank.device().synchronize().ok());
    EXPECT_TRUE(rank.communicator()->status().ok());
  });
}

TEST_F(GpuNcclTest, AnAbortEndsAGatherThatWaitsForAnotherRank) {
  run_ranks(size_, [this](int index) {
    GpuRank rank(*nccl_, store_, index, size_);
    ASSERT_NE(rank.communicator(), nullptr);
    // What connects waits for all ranks.
    rank.gather(1 << 20);
    const StreamLease stream =
        *rank.device().acquire_stream(StreamKind::kTransfer, "gather");
    const DeviceArena in = *rank.device().allocate(1 << 20, "in");
    const DeviceArena out = *rank.device().allocate(size_ << 20, "out");
    // The last rank does not come.
    if (index != size_ - 1) {
      ASSERT_TRUE(rank.communicator()
                      ->all_gather(stream.get(), in.data(), out.data(), 1 << 20)
                      .ok());
    }
    rank.communicator()->abort("enough");
    EXPECT_TRUE(rank.device().synchronize().ok());
    EXPECT_EQ(rank.communicator()->status().code(),
              absl::StatusCode::kUnavailable);
  });
}

}  // namespace
}  // namespace ferry
