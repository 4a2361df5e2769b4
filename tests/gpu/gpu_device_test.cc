// The CUDA device on a GPU. No LibTorch: a small bundle of it runs on any
// machine that has a driver.

#include <cuda_runtime_api.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "platform/device/cuda/cuda_device_options.h"
#include "platform/device/cuda/cuda_platform.h"
#include "platform/device/cuda/cuda_runtime.h"
#include "platform/device/cuda/testing/fake_cuda_torch.h"
#include "platform/device/device.h"
#include "platform/device/device_arena.h"
#include "platform/device/device_stats.h"
#include "platform/device/event.h"
#include "platform/device/host_arena.h"
#include "platform/device/stream.h"
#include "platform/device/stream_guard.h"
#include "platform/device/stream_lease.h"

namespace ferry {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

class GpuDeviceTest : public testing::Test {
 protected:
  void SetUp() override {
    // Errors of the other tests are gone with their devices.
    make(CudaDeviceOptions());
  }

  // (Re)makes the platform; skips the test where there is no GPU, unless
  // FERRY_REQUIRE_GPU says that there is one.
  void make(const CudaDeviceOptions& options) {
    copy_.reset();
    platform_.reset();
    auto platform =
        CudaPlatform::create(options, std::make_unique<CudaRuntime>(),
                             std::make_unique<FakeCudaTorch>());
    if (!platform.ok()) {
      if (std::getenv("FERRY_REQUIRE_GPU") != nullptr) {
        FAIL() << platform.status();
      }
      GTEST_SKIP() << platform.status().message();
    }
    platform_ = *std::move(platform);
    copy_ = *device().acquire_stream(StreamKind::kTransfer, "copy");
  }

  Device& device() { return *platform_->device(); }
  Stream stream() { return copy_.get(); }

  absl::Status send(void* to, const void* from, int64_t bytes) {
    return device().copy_async(stream(),
                               {CopyKind::kHostToDevice, to, from, bytes});
  }
  absl::Status receive(void* to, const void* from, int64_t bytes) {
    return device().copy_async(stream(),
                               {CopyKind::kDeviceToHost, to, from, bytes});
  }

  // Fills `bytes` bytes of an arena with what depends on their place.
  static void fill(const HostArena& arena, int64_t bytes, uint32_t seed) {
    for (int64_t i = 0; i < bytes; ++i) {
      seed = seed * 1664525 + 1013904223;
      arena.data()[i] = static_cast<char>(seed >> 24);
    }
  }

  // Sends an arena of `bytes` bytes there and back.
  void round_trip(int64_t bytes) {
    const auto slot = device().allocate(bytes, "slot");
    ASSERT_TRUE(slot.ok()) << slot.status();
    const auto from = device().allocate_host(bytes, "from");
    const auto to = device().allocate_host(bytes, "to");
    ASSERT_TRUE(from.ok() && to.ok());
    fill(*from, bytes, static_cast<uint32_t>(bytes));
    ASSERT_TRUE(send(slot->data(), from->data(), bytes).ok());
    ASSERT_TRUE(receive(to->data(), slot->data(), bytes).ok());
    ASSERT_TRUE(device().synchronize(stream()).ok());
    EXPECT_EQ(std::memcmp(from->data(), to->data(), static_cast<size_t>(bytes)),
              0);
  }

  // Prints the rate of copies of an arena to the device.
  void measure(const HostArena& arena, const char* name) {
    const int64_t bytes = arena.bytes();
    const DeviceArena slot = *device().allocate(bytes, "slot");
    const Event start = *device().create_event(true);
    const Event end = *device().create_event(true);
    ASSERT_TRUE(send(slot.data(), arena.data(), bytes).ok());
    ASSERT_TRUE(device().record(start, stream()).ok());
    for (int i = 0; i < 4; ++i) {
      ASSERT_TRUE(send(slot.data(), arena.data(), bytes).ok());
    }
    ASSERT_TRUE(device().record(end, stream()).ok());
    ASSERT_TRUE(device().synchronize(end).ok());
    const double seconds =
        absl::ToDoubleSeconds(**device().elapsed(start, end));
    std::printf("{\"name\": \"h2d_%s\", \"value\": %.2f, \"unit\": \"GB/s\"}\n",
                name, 4 * static_cast<double>(bytes) / seconds / 1e9);
  }

  std::unique_ptr<CudaPlatform> platform_;
  StreamLease copy_;
};

TEST_F(GpuDeviceTest, TellsItsMemory) {
  const auto before = platform_->memory_info();
  ASSERT_TRUE(before.ok()) << before.status();
  EXPECT_GT(before->free_bytes, 0);
  EXPECT_GE(before->total_bytes, before->free_bytes);
  const DeviceArena arena = *device().allocate(64 * kMiB, "arena");
  EXPECT_LE(platform_->memory_info()->free_bytes,
            before->free_bytes - 64 * kMiB);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(arena.data()) % 256, 0u);
}

TEST_F(GpuDeviceTest, BytesGoThereAndBack) {
  for (const int64_t bytes :
       {int64_t{1}, int64_t{4095}, 3 * kMiB + 1, 64 * kMiB}) {
    round_trip(bytes);
  }
  EXPECT_EQ(device().stats().staged.count, 0);
}

TEST_F(GpuDeviceTest, HostArenasArePageLocked) {
  const HostArena arena = *device().allocate_host(8 * kMiB, "arena");
  cudaPointerAttributes attributes = {};
  ASSERT_EQ(cudaPointerGetAttributes(&attributes, arena.data()), cudaSuccess);
  EXPECT_EQ(attributes.type, cudaMemoryTypeHost);
  EXPECT_EQ(device().stats().host_arenas.pinned_bytes, 8 * kMiB);
}

TEST_F(GpuDeviceTest, CopiesReachOverRegistrations) {
  CudaDeviceOptions options;
  options.register_bytes = 2 * kMiB;
  make(options);
  round_trip(9 * kMiB + 5);
  EXPECT_EQ(device().stats().staged.count, 0);
}

TEST_F(GpuDeviceTest, WhatIsNotPageLockedIsStaged) {
  CudaDeviceOptions options;
  options.pin_host_memory = false;
  options.staging_bytes = kMiB;
  make(options);
  for (const int64_t bytes : {int64_t{1}, kMiB, 9 * kMiB + 5}) {
    round_trip(bytes);
  }
  const DeviceStats stats = device().stats();
  EXPECT_EQ(stats.staged.count, 6);
  EXPECT_EQ(stats.pageable.count, 0);
}

TEST_F(GpuDeviceTest, FilesAreMapped) {
  const std::filesystem::path path =
      std::filesystem::path(testing::TempDir()) / "weights";
  std::string content(static_cast<size_t>(5 * kMiB + 77), '\0');
  for (size_t i = 0; i < content.size(); ++i) {
    content[i] = static_cast<char>(i % 253);
  }
  std::ofstream(path) << content;
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  ASSERT_GE(fd, 0);
  const auto bytes = static_cast<int64_t>(content.size());
  {
    const auto arena = device().map_host_file(fd, 0, bytes, "weights");
    ::close(fd);
    ASSERT_TRUE(arena.ok()) << arena.status();
    const DeviceArena slot = *device().allocate(bytes, "slot");
    const HostArena back = *device().allocate_host(bytes, "back");
    ASSERT_TRUE(send(slot.data(), arena->data(), bytes).ok());
    ASSERT_TRUE(receive(back.data(), slot.data(), bytes).ok());
    ASSERT_TRUE(device().synchronize(stream()).ok());
    EXPECT_EQ(std::memcmp(back.data(), content.data(), content.size()), 0);
    std::printf("mapped files are %s\n",
                device().stats().host_arenas.mapped_bytes > 0 ? "registered"
                                                              : "staged");
  }
  std::filesystem::remove(path);
}

// The host's memory may change as soon as the call returns.
TEST_F(GpuDeviceTest, OtherMemoryIsReadBeforeTheCallReturns) {
  const int64_t bytes = 70 * kMiB + 3;
  const DeviceArena slot = *device().allocate(bytes, "slot");
  std::string from(static_cast<size_t>(bytes), 'a');
  ASSERT_TRUE(send(slot.data(), from.data(), bytes).ok());
  std::memset(from.data(), 'b', from.size());
  std::string to(static_cast<size_t>(bytes), '\0');
  ASSERT_TRUE(receive(to.data(), slot.data(), bytes).ok());
  EXPECT_EQ(to, std::string(static_cast<size_t>(bytes), 'a'));
  EXPECT_EQ(device().stats().pageable.count, 2);
}

// Two slots, many blocks: each byte is read where it was sent, though the host
// never waits in between.
TEST_F(GpuDeviceTest, EventsOrderStreams) {
  constexpr int kBlocks = 64;
  const int64_t bytes = 4 * kMiB;
  const DeviceArena slots = *device().allocate(2 * bytes, "slots");
  const HostArena images = *device().allocate_host(kBlocks * kMiB, "images");
  const HostArena results = *device().allocate_host(kBlocks * bytes, "results");
  const StreamLease compute =
      *device().acquire_stream(StreamKind::kCompute, "compute");
  const Event ready = *device().create_event(false);
  const Event used[2] = {*device().create_event(false),
                         *device().create_event(false)};
  for (int block = 0; block < kBlocks; ++block) {
    std::memset(images.data() + block * kMiB, block + 1, kMiB);
  }
  for (int block = 0; block < kBlocks; ++block) {
    char* const slot = slots.data() + block % 2 * bytes;
    if (block > 1) {
      ASSERT_TRUE(device().wait(stream(), used[block % 2]).ok());
    }
    for (int part = 0; part < 4; ++part) {
      ASSERT_TRUE(
          send(slot + part * kMiB, images.data() + block * kMiB, kMiB).ok());
    }
    ASSERT_TRUE(device().record(ready, stream()).ok());
    ASSERT_TRUE(device().wait(compute.get(), ready).ok());
    ASSERT_TRUE(device()
                    .copy_async(compute.get(),
                                {CopyKind::kDeviceToHost,
                                 results.data() + block * bytes, slot, bytes})
                    .ok());
    ASSERT_TRUE(device().record(used[block % 2], compute.get()).ok());
  }
  ASSERT_TRUE(device().synchronize().ok());
  for (int block = 0; block < kBlocks; ++block) {
    const std::string expected(static_cast<size_t>(bytes),
                               static_cast<char>(block + 1));
    EXPECT_EQ(std::memcmp(results.data() + block * bytes, expected.data(),
                          expected.size()),
              0)
        << block;
  }
}

TEST_F(GpuDeviceTest, EventsTellWhatIsDone) {
  const int64_t bytes = 256 * kMiB;
  const DeviceArena slot = *device().allocate(bytes, "slot");
  const HostArena image = *device().allocate_host(bytes, "image");
  const Event start = *device().create_event(true);
  const Event end = *device().create_event(true);
  EXPECT_EQ(device().wait(stream(), end).code(),
            absl::StatusCode::kFailedPrecondition);
  ASSERT_TRUE(device().record(start, stream()).ok());
  ASSERT_TRUE(send(slot.data(), image.data(), bytes).ok());
  ASSERT_TRUE(device().record(end, stream()).ok());
  // The call returned before the copy ended, and the question is no error.
  const auto done = device().query(end);
  ASSERT_TRUE(done.ok()) << done.status();
  EXPECT_FALSE(*done);
  EXPECT_EQ(cudaPeekAtLastError(), cudaSuccess);
  ASSERT_TRUE(device().synchronize(end).ok());
  EXPECT_TRUE(*device().query(end));
  EXPECT_GT(**device().elapsed(start, end), absl::ZeroDuration());
}

TEST_F(GpuDeviceTest, TooMuchIsRefusedAndForgotten) {
  const absl::Status status =
      device().allocate(int64_t{1} << 50, "too much").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_EQ(cudaPeekAtLastError(), cudaSuccess);
  round_trip(kMiB);
}

// What cannot be registered costs speed, and nothing else.
TEST_F(GpuDeviceTest, ARegistrationThatFailsIsForgotten) {
  const HostArena arena = *device().allocate_host(kMiB, "arena");
  CudaRuntime runtime;
  EXPECT_NE(runtime.host_register(arena.data(), kMiB, 0), cudaSuccess);
  EXPECT_NE(runtime.get_last_error(), cudaSuccess);
  EXPECT_EQ(runtime.peek_at_last_error(), cudaSuccess);
  round_trip(kMiB);
}

TEST_F(GpuDeviceTest, TellsHowFastItCopies) {
  {
    const HostArena pinned = *device().allocate_host(512 * kMiB, "pinned");
    measure(pinned, "pinned");
  }
  CudaDeviceOptions options;
  options.pin_host_memory = false;
  make(options);
  const HostArena staged = *device().allocate_host(512 * kMiB, "staged");
  measure(staged, "staged");
}

}  // namespace
}  // namespace ferry
