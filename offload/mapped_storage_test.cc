#include "offload/mapped_storage.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "offload/block_image.h"
#include "offload/tensor_group.h"
#include "offload/testing/checked_platform.h"

namespace ferry {
namespace {

constexpr int64_t kFloats = 64 * 1024;
constexpr char kFile[] = "/mapped_storage.bin";

// A mapped file of 0, 1, 2, …, as a tensor sees it.
class MappedStorageTest : public testing::Test {
 protected:
  MappedStorageTest() : path_(testing::TempDir() + kFile) {
    std::vector<float> values;
    for (int64_t i = 0; i < kFloats; ++i) {
      values.push_back(static_cast<float>(i));
    }
    std::ofstream(path_, std::ios::binary)
        .write(reinterpret_cast<const char*>(values.data()),
               static_cast<std::streamsize>(values.size() * sizeof(float)));
    const int fd = open(path_.c_str(), O_RDONLY | O_CLOEXEC);
    void* const data = mmap(nullptr, kBytes, PROT_READ, MAP_SHARED, fd, 0);
    EXPECT_NE(data, MAP_FAILED);
    close(fd);
    mapping_ = std::shared_ptr<const void>(data, [](const void* address) {
      munmap(const_cast<void*>(address), kBytes);
    });
    storage_ = make_mapped_storage(data, kBytes, mapping_);
    tensor_ = view();
  }

  at::Tensor view() {
    at::Tensor tensor = at::empty({0}, at::TensorOptions(c10::kFloat));
    tensor.unsafeGetTensorImpl()->set_storage_keep_dtype(
        c10::Storage(storage_));
    tensor.unsafeGetTensorImpl()->set_sizes_contiguous({kFloats});
    return tensor;
  }

  // How much of the file is in this process.
  int64_t mapped_kilobytes() const {
    std::ifstream smaps("/proc/self/smaps");
    std::string line;
    bool is_ours = false;
    int64_t sum = 0;
    while (std::getline(smaps, line)) {
      // A mapping's first line; those that follow begin with capitals.
      if (!absl::ascii_isupper(line[0])) is_ours = absl::EndsWith(line, kFile);
      int64_t kilobytes = 0;
      if (is_ours && absl::StartsWith(line, "Rss:") &&
          absl::SimpleAtoi(
              absl::StripSuffix(absl::StripPrefix(line, "Rss:"), "kB"),
              &kilobytes)) {
        sum += kilobytes;
      }
    }
    return sum;
  }

  static constexpr int64_t kBytes = kFloats * int64_t{sizeof(float)};
  const std::string path_;
  std::shared_ptr<const void> mapping_;
  c10::intrusive_ptr<c10::StorageImpl> storage_;
  at::Tensor tensor_;
};

TEST_F(MappedStorageTest, TensorsReadTheFile) {
  EXPECT_TRUE(is_mapped(*storage_));
  EXPECT_EQ(tensor_.max().item<float>(), kFloats - 1);
  EXPECT_FALSE(is_mapped(*at::empty({1}).storage().unsafeGetStorageImpl()));
}

TEST_F(MappedStorageTest, PagesGoAndComeAgain) {
  EXPECT_EQ(tensor_.max().item<float>(), kFloats - 1);
  EXPECT_GE(mapped_kilobytes(), kBytes / 1024);
  release_pages(*storage_);
  EXPECT_EQ(mapped_kilobytes(), 0);
  EXPECT_EQ(tensor_.max().item<float>(), kFloats - 1);
  tensor_.reset();
  storage_.reset();
  EXPECT_EQ(mapped_kilobytes(), 0);
  EXPECT_EQ(mapping_.use_count(), 1);
}

TEST_F(MappedStorageTest, ACopyIsWritableForAllWhoSeeIt) {
  const at::Tensor other = view();
  copy_to_memory(storage_.get());
  EXPECT_FALSE(is_mapped(*storage_));
  EXPECT_EQ(mapping_.use_count(), 1);
  tensor_.add_(1);
  EXPECT_EQ(other.max().item<float>(), kFloats);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(other.const_data_ptr()) % 64, 0u);
}

TEST_F(MappedStorageTest, APackedBlockLeavesNoPageOfTheFile) {
  SimulatedPlatform platform(checked_device());
  EXPECT_EQ(tensor_.max().item<float>(), kFloats - 1);
  auto image = BlockImage::pack(*platform.device(), c10::Device(c10::kCPU),
                                {"block", {{"block.weight", tensor_}}});
  ASSERT_TRUE(image.ok()) << image.status();
  EXPECT_EQ(mapped_kilobytes(), 0);
  storage_.reset();
  (*image)->attach();
  EXPECT_EQ(mapping_.use_count(), 1);
  ASSERT_TRUE((*image)->release().ok());
  tensor_.add_(1);
  EXPECT_EQ(tensor_.max().item<float>(), kFloats);
  // The platform must outlive what it has packed.
  tensor_.reset();
}

}  // namespace
}  // namespace ferry
