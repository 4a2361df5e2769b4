#include "tests/gpu/dry/gather_group.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <set>

namespace ferry::dry {
namespace {

constexpr char kFolder[] = "/dev/shm/ferry-dry-nccl-";

// False when not all was written, or read.
bool write_all(int fd, const char* data, size_t bytes) {
  while (bytes > 0) {
    const ssize_t written = ::write(fd, data, bytes);
    if (written <= 0) return false;
    data += written;
    bytes -= static_cast<size_t>(written);
  }
  return true;
}

bool read_all(int fd, char* data, size_t bytes) {
  while (bytes > 0) {
    const ssize_t count = ::read(fd, data, bytes);
    if (count <= 0) return false;
    data += count;
    bytes -= static_cast<size_t>(count);
  }
  return true;
}

}  // namespace

// Zeros at first.
struct GatherGroup::Shared {
  struct Rank {
    // Device and 1; 0: it has not joined.
    std::atomic<int> device;
    // How many gathers it gave its bytes to, and took those of the others of.
    std::atomic<int64_t> published;
    std::atomic<int64_t> collected;
  };
  std::atomic<int> left;
  std::array<Rank, kMaxRanks> ranks;
};

std::string GatherGroup::make_id() {
  std::array<unsigned char, 16> random = {};
  if (::getrandom(random.data(), random.size(), 0) !=
      static_cast<ssize_t>(random.size())) {
    return "";
  }
  std::string id;
  for (const unsigned char byte : random) {
    id += "0123456789abcdef"[byte >> 4];
    id += "0123456789abcdef"[byte & 15];
  }
  const int fd = ::open((kFolder + id).c_str(),
                        O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0) return "";
  const bool is_made = ::ftruncate(fd, sizeof(Shared)) == 0;
  ::close(fd);
  return is_made ? id : "";
}

std::shared_ptr<GatherGroup> GatherGroup::join(const std::string& id, int rank,
                                               int size, int device) {
  const std::string path = kFolder + id;
  const int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0) return nullptr;
  void* const memory = ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE,
                              MAP_SHARED, fd, 0);
  ::close(fd);
  if (memory == MAP_FAILED) return nullptr;
  auto* const shared = static_cast<Shared*>(memory);
  shared->ranks[static_cast<size_t>(rank)].device = device + 1;
  return std::shared_ptr<GatherGroup>(
      new GatherGroup(path, shared, rank, size));
}

GatherGroup::~GatherGroup() {
  leave();
  ::munmap(shared_, sizeof(Shared));
}

std::string GatherGroup::file(int64_t number, int rank) const {
  return path_ + "-" + std::to_string(number) + "-" + std::to_string(rank);
}

bool GatherGroup::all_have_joined() const {
  return std::all_of(shared_->ranks.begin(), shared_->ranks.begin() + size_,
                     [](const auto& rank) { return rank.device > 0; });
}

bool GatherGroup::has_duplicate_device() const {
  std::set<int> devices;
  for (int i = 0; i < size_; ++i) {
    devices.insert(shared_->ranks[static_cast<size_t>(i)].device);
  }
  return devices.size() < static_cast<size_t>(size_);
}

void GatherGroup::publish(int64_t number, const char* in, size_t bytes) {
  const int fd =
      ::open(file(number, rank_).c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) return;
  const bool is_whole = write_all(fd, in, bytes);
  ::close(fd);
  if (is_whole) {
    shared_->ranks[static_cast<size_t>(rank_)].published = number + 1;
  }
  // The last rank, which removes what is left, may have come before.
  if (shared_->left >= size_) ::unlink(file(number, rank_).c_str());
}

bool GatherGroup::all_have_published(int64_t number) const {
  return std::all_of(
      shared_->ranks.begin(), shared_->ranks.begin() + size_,
      [number](const auto& rank) { return rank.published > number; });
}

bool GatherGroup::collect(int64_t number, char* out, size_t bytes) {
  bool is_whole = true;
  for (int i = 0; i < size_; ++i) {
    const int fd = ::open(file(number, i).c_str(), O_RDONLY | O_CLOEXEC);
    is_whole = fd >= 0 &&
               read_all(fd, out + static_cast<size_t>(i) * bytes, bytes) &&
               is_whole;
    if (fd >= 0) ::close(fd);
  }
  shared_->ranks[static_cast<size_t>(rank_)].collected = number + 1;
  const bool is_last = std::all_of(
      shared_->ranks.begin(), shared_->ranks.begin() + size_,
      [number](const auto& rank) { return rank.collected > number; });
  if (is_last) {
    for (int i = 0; i < size_; ++i) ::unlink(file(number, i).c_str());
  }
  return is_whole;
}

void GatherGroup::leave() {
  if (has_left_.exchange(true) || ++shared_->left < size_) return;
  // What a rank gave, and not all have taken.
  int64_t first = INT64_MAX;
  int64_t last = 0;
  for (int i = 0; i < size_; ++i) {
    const Shared::Rank& rank = shared_->ranks[static_cast<size_t>(i)];
    first = std::min<int64_t>(first, rank.collected);
    last = std::max<int64_t>(last, rank.published);
  }
  for (int64_t number = first; number < last; ++number) {
    for (int i = 0; i < size_; ++i) ::unlink(file(number, i).c_str());
  }
  ::unlink(path_.c_str());
}

}  // namespace ferry::dry
