#include "platform/device/cuda/host_pages.h"

#include <linux/mempolicy.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <fstream>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "platform/base/logging.h"

// Since Linux 5.14; Debian's headers may be older.
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

namespace ferry {
namespace {

// What one thread populates at a time.
constexpr int64_t kPieceBytes = int64_t{64} << 20;
constexpr int kMaxNodes = 1024;

void touch_pages(char* data, int64_t bytes) {
  const int64_t page = ::sysconf(_SC_PAGESIZE);
  for (int64_t offset = 0; offset < bytes; offset += page) {
    *static_cast<volatile char*>(data + offset) = 0;
  }
}

// Zero, or errno.
int populate_piece(char* data, int64_t bytes) {
  if (::madvise(data, static_cast<size_t>(bytes), MADV_POPULATE_WRITE) == 0) {
    return 0;
  }
  // An older kernel, which has another way.
  if (errno != EINVAL) return errno;
  touch_pages(data, bytes);
  return 0;
}

}  // namespace

std::optional<int> find_numa_node(const std::filesystem::path& sysfs,
                                  absl::string_view pci_bus_id) {
  std::ifstream file(sysfs / "bus/pci/devices" /
                     absl::AsciiStrToLower(pci_bus_id) / "numa_node");
  std::string line;
  int node = -1;
  if (!std::getline(file, line) || !absl::SimpleAtoi(line, &node)) {
    return std::nullopt;
  }
  if (node < 0 || node >= kMaxNodes) return std::nullopt;
  return node;
}

absl::Status prefer_numa_node(void* data, int64_t bytes, int node) {
  constexpr int kBits = 8 * sizeof(unsigned long);
  std::array<unsigned long, kMaxNodes / kBits> nodes = {};
  nodes[static_cast<size_t>(node / kBits)] = 1UL << (node % kBits);
  // The kernel takes one node less than it is told of.
  if (::syscall(SYS_mbind, data, bytes, MPOL_PREFERRED, nodes.data(),
                kMaxNodes + 1, 0) == 0) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(
      absl::StrCat("mbind to NUMA node ", node, ": ", std::strerror(errno)));
}

absl::Status populate_pages(void* data, int64_t bytes, int threads) {
  const int64_t pieces = (bytes + kPieceBytes - 1) / kPieceBytes;
  std::atomic<int64_t> next{0};
  std::atomic<int> error{0};
  const auto work = [&] {
    for (int64_t i = next++; i < pieces && error == 0; i = next++) {
      const int64_t offset = i * kPieceBytes;
      const int failed = populate_piece(static_cast<char*>(data) + offset,
                                        std::min(kPieceBytes, bytes - offset));
      if (failed != 0) error = failed;
    }
  };
  std::vector<std::thread> helpers;
  const int64_t wanted = std::min<int64_t>(threads, pieces);
  helpers.reserve(static_cast<size_t>(std::max<int64_t>(wanted, 0)));
  try {
    for (int64_t i = 1; i < wanted; ++i) helpers.emplace_back(work);
  } catch (const std::system_error& no_thread) {
    // The process may have no more threads. Those that run do all of it.
    log_warning("host memory is populated by fewer threads than there could be",
                {{"threads", helpers.size() + 1}, {"error", no_thread.what()}});
  }
  work();
  for (std::thread& helper : helpers) helper.join();
  if (error == 0) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      "populating ", bytes, " bytes of host memory: ", std::strerror(error)));
}

}  // namespace ferry
