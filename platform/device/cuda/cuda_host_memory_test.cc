#include "platform/device/cuda/cuda_host_memory.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "platform/device/cuda/cuda_device.h"
#include "platform/device/cuda/cuda_device_options.h"
#include "platform/device/cuda/testing/fake_cuda_api.h"
#include "platform/device/cuda/testing/fake_cuda_torch.h"
#include "platform/device/device.h"
#include "platform/device/device_arena.h"
#include "platform/device/host_arena.h"
#include "platform/device/mapping.h"
#include "platform/device/stream.h"

namespace ferry {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int64_t kPage = 4096;

// Host arenas, as a device with pieces of two pages has them.
class CudaHostMemoryTest : public testing::Test {
 protected:
  void SetUp() override {
    options_.register_bytes = 2 * kPage;
    options_.staging_bytes = kPage;
    path_ = std::filesystem::path(testing::TempDir()) / "weights";
    std::ofstream(path_) << std::string(3 * kPage, 'w');
    fd_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC);
    ASSERT_GE(fd_, 0);
  }

  void TearDown() override {
    ::close(fd_);
    device_.reset();
    EXPECT_EQ(api_.leaks(), "");
    EXPECT_EQ(api_.pageable_copies(), 0);
    EXPECT_THAT(api_.misuses(), IsEmpty());
  }

  CudaDevice& device() {
    if (device_ == nullptr) {
      device_ = *CudaDevice::create(options_, &api_, &torch_);
    }
    return *device_;
  }

  // What arrives when `bytes` bytes of the arena are copied to the device.
  std::string send(const HostArena& arena, int64_t offset, int64_t bytes) {
    const auto slot = device().allocate(bytes, "slot");
    const Stream stream = device().current_stream();
    EXPECT_TRUE(device()
                    .copy_async(stream, {CopyKind::kHostToDevice, slot->data(),
                                         arena.data() + offset, bytes})
                    .ok());
    EXPECT_TRUE(device().synchronize(stream).ok());
    return {slot->data(), static_cast<size_t>(bytes)};
  }

  FakeCudaApi api_;
  FakeCudaTorch torch_;
  CudaDeviceOptions options_;
  std::filesystem::path path_;
  int fd_ = -1;
  std::unique_ptr<CudaDevice> device_;
};

TEST_F(CudaHostMemoryTest, RegistersInPieces) {
  device();
  api_.start_log();
  HostArena arena = *device().allocate_host(5 * kPage - 1, "image");
  EXPECT_THAT(api_.log(),
              ElementsAre("host_register 8192", "host_register 8192",
                          "host_register 4096"));
  EXPECT_EQ(arena.bytes(), 5 * kPage - 1);
  const DeviceStats stats = device().stats();
  EXPECT_EQ(stats.host.bytes_in_use, 5 * kPage);
  EXPECT_EQ(stats.host.allocations, 1);
  EXPECT_EQ(stats.host_arenas.pinned_bytes, 5 * kPage);
  // Zero-filled, and all of it ours.
  EXPECT_EQ(std::string(arena.data(), static_cast<size_t>(arena.bytes())),
            std::string(static_cast<size_t>(arena.bytes()), '\0'));
  ASSERT_TRUE(arena.free().ok());
  EXPECT_EQ(api_.registered_bytes(), 0u);
  EXPECT_EQ(device().stats().host.bytes_in_use, 0);
  EXPECT_EQ(device().stats().host.bytes_peak, 5 * kPage);
}

TEST_F(CudaHostMemoryTest, TellsItsNameToTheSystem) {
  const HostArena arena = *device().allocate_host(kPage, "image");
  std::ostringstream maps;
  maps << std::ifstream("/proc/self/maps").rdbuf();
  EXPECT_THAT(maps.str(), HasSubstr("memfd:ferry-host"));
}

// CUDA refuses copies that reach into the next registration.
TEST_F(CudaHostMemoryTest, CopiesPieceByPiece) {
  const HostArena arena = *device().allocate_host(5 * kPage, "image");
  for (int64_t i = 0; i < arena.bytes(); ++i) {
    arena.data()[i] = static_cast<char>(i % 251);
  }
  const std::string all(arena.data(), static_cast<size_t>(arena.bytes()));
  api_.start_log();
  EXPECT_EQ(send(arena, kPage + 1, 3 * kPage),
            all.substr(kPage + 1, 3 * kPage));
  std::vector<std::string> copies;
  for (const std::string& call : api_.log()) {
    if (call.find("memcpy") == 0) copies.push_back(call);
  }
  EXPECT_THAT(copies, ElementsAre("memcpy_async 4095 h2d stream0",
                                  "memcpy_async 8192 h2d stream0",
                                  "memcpy_async 1 h2d stream0"));
  EXPECT_EQ(send(arena, 0, arena.bytes()), all);
}

TEST_F(CudaHostMemoryTest, AFailedPieceTakesTheOthersBack) {
  for (int64_t piece = 1; piece <= 3; ++piece) {
    api_.fail("host_register", piece, cudaErrorMemoryAllocation);
    const auto arena = device().allocate_host(5 * kPage, "image");
    ASSERT_TRUE(arena.ok()) << arena.status();
    EXPECT_EQ(api_.registered_bytes(), 0u) << piece;
    // What failed is not held against the calls that follow.
    EXPECT_EQ(api_.peek_at_last_error(), cudaSuccess);
    EXPECT_EQ(device().stats().host_arenas.staged_bytes, 5 * kPage);
    std::memset(arena->data(), 'a', 5 * kPage);
    EXPECT_EQ(send(*arena, 0, 5 * kPage), std::string(5 * kPage, 'a'));
  }
  const DeviceStats stats = device().stats();
  EXPECT_EQ(stats.staged.count, 3);
  EXPECT_EQ(stats.pageable.count, 0);
  EXPECT_EQ(stats.host_arenas.staged_bytes, 0);
}

TEST_F(CudaHostMemoryTest, WithoutRegistrationCopiesAreStaged) {
  api_.machine().can_register = false;
  const HostArena arena = *device().allocate_host(3 * kPage, "image");
  EXPECT_EQ(api_.calls("host_register"), 0);
  std::memset(arena.data(), 'b', 3 * kPage);
  EXPECT_EQ(send(arena, 1, 2 * kPage), std::string(2 * kPage, 'b'));
  EXPECT_EQ(device().stats().staged.bytes, 2 * kPage);
}

TEST_F(CudaHostMemoryTest, WhatIsNotToBePinnedIsStaged) {
  options_.pin_host_memory = false;
  const HostArena arena = *device().allocate_host(kPage, "image");
  EXPECT_EQ(api_.calls("host_register"), 0);
  EXPECT_EQ(device().stats().host_arenas.staged_bytes, kPage);
}

TEST_F(CudaHostMemoryTest, MapsAFileReadOnly) {
  device();
  api_.start_log();
  HostArena arena = *device().map_host_file(fd_, kPage, 2 * kPage, "weights");
  EXPECT_THAT(api_.log(), ElementsAre("host_register 8192 ro"));
  EXPECT_EQ(send(arena, 1, kPage), std::string(kPage, 'w'));
  EXPECT_TRUE(arena.access(AccessKind::kRead, 0, kPage).ok());
  EXPECT_EQ(arena.access(AccessKind::kWrite, 0, kPage).status().code(),
            absl::StatusCode::kPermissionDenied);
  const DeviceArena slot = *device().allocate(kPage, "slot");
  EXPECT_EQ(device()
                .copy_async(
                    device().current_stream(),
                    {CopyKind::kDeviceToHost, arena.data(), slot.data(), kPage})
                .code(),
            absl::StatusCode::kPermissionDenied);
  const DeviceStats stats = device().stats();
  EXPECT_EQ(stats.host_arenas.mapped_bytes, 2 * kPage);
  EXPECT_EQ(stats.host.bytes_in_use, 0);
  EXPECT_EQ(stats.staged.count, 0);
}

TEST_F(CudaHostMemoryTest, AFileThatCannotBeRegisteredIsStaged) {
  api_.machine().can_register_read_only = false;
  const HostArena arena =
      *device().map_host_file(fd_, 0, 2 * kPage + 5, "weights");
  EXPECT_EQ(api_.calls("host_register"), 0);
  EXPECT_EQ(send(arena, 0, 2 * kPage + 5), std::string(2 * kPage + 5, 'w'));
  EXPECT_EQ(device().stats().host_arenas.staged_bytes, 3 * kPage);
  EXPECT_EQ(device().stats().staged.count, 1);
}

// As images that ranks share.
TEST_F(CudaHostMemoryTest, AFileInMemoryIsRegisteredOnEveryDevice) {
  const MemoryFile file = *MemoryFile::create("images", 2 * kPage);
  for (const bool read_only : {true, false}) {
    api_.machine().can_register_read_only = read_only;
    device_.reset();
    device();
    api_.start_log();
    const HostArena arena =
        *device().map_host_file(file.fd(), 0, 2 * kPage, "images");
    EXPECT_THAT(api_.log(), ElementsAre(read_only ? "host_register 8192 ro"
                                                  : "host_register 8192"));
    EXPECT_EQ(device().stats().host_arenas.mapped_bytes, 2 * kPage);
    EXPECT_EQ(send(arena, 1, kPage), std::string(kPage, '\0'));
    EXPECT_EQ(arena.access(AccessKind::kWrite, 0, kPage).status().code(),
              absl::StatusCode::kPermissionDenied);
    // Nobody writes to it.
    EXPECT_EQ(::pread(fd_, arena.data(), 1, 0), -1);
    EXPECT_EQ(errno, EFAULT);
  }
}

TEST_F(CudaHostMemoryTest, RefusesWhatTheFileDoesNotHave) {
  for (const auto& [offset, bytes] : std::vector<std::pair<int64_t, int64_t>>{
           {0, 4 * kPage}, {1, 1}, {0, 0}, {-kPage, kPage}, {3 * kPage, 1}}) {
    EXPECT_EQ(device().map_host_file(fd_, offset, bytes, "w").status().code(),
              absl::StatusCode::kInvalidArgument)
        << offset << " " << bytes;
  }
  EXPECT_FALSE(device().map_host_file(-1, 0, kPage, "none").ok());
}

// Registration finds the device dead: it is said then, and nothing is kept.
TEST_F(CudaHostMemoryTest, AFailedDeviceGivesNoArena) {
  device();
  api_.fail("host_register", 2, cudaErrorIllegalAddress, /*sticky=*/true);
  const absl::Status status =
      device().allocate_host(5 * kPage, "image").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_EQ(device().stats().host.bytes_in_use, 0);
  api_.clear_faults();
  EXPECT_EQ(device().allocate_host(kPage, "image").status(), status);
  // The driver frees the rest with the process.
  EXPECT_EQ(api_.registered_bytes(), static_cast<size_t>(2 * kPage));
  api_.forget_registrations();
}

TEST_F(CudaHostMemoryTest, ASlowRegistrationHoldsNobodyUp) {
  const HostArena first = *device().allocate_host(kPage, "first");
  bool looked = false;
  api_.set_observer([&](absl::string_view call) {
    if (call != "host_register" || looked) return;
    looked = true;
    // Copies look arenas up meanwhile.
    EXPECT_EQ(send(first, 0, kPage), std::string(kPage, '\0'));
  });
  const HostArena second = *device().allocate_host(kPage, "second");
  EXPECT_TRUE(looked);
  api_.set_observer(nullptr);
}

TEST_F(CudaHostMemoryTest, LiesOnTheDevicesNode) {
  const std::filesystem::path sysfs =
      std::filesystem::path(testing::TempDir()) / "sys";
  const std::filesystem::path folder = sysfs / "bus/pci/devices/0000:ab:00.0";
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "numa_node") << "0\n";
  options_.sysfs = sysfs;
  api_.machine().pci_bus_id = "0000:AB:00.0";
  const HostArena arena = *device().allocate_host(kPage, "image");
  int policy = -1;
  const long failed = ::syscall(SYS_get_mempolicy, &policy, nullptr, 0,
                                arena.data(), MPOL_F_ADDR);
  if (failed != 0 || policy == MPOL_DEFAULT) {
    GTEST_SKIP() << "this system lets nobody choose a node";
  }
  EXPECT_EQ(policy, MPOL_PREFERRED);
}

}  // namespace
}  // namespace ferry
