#include "platform/device/simulated/device_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "platform/base/check.h"
#include "platform/base/status_macros.h"

namespace ferry {
namespace {

// Address space is taken in pieces of at least this; memory page by page.
constexpr int64_t kRegionBytes = int64_t{64} << 20;

int64_t round_up(int64_t bytes) {
  return (bytes + DeviceMemory::kGranularity - 1) / DeviceMemory::kGranularity *
         DeviceMemory::kGranularity;
}

// Gives whole pages back to the system; they read as zero.
void drop_pages(char* data, int64_t bytes) {
  char* const begin = reinterpret_cast<char*>(
      round_to_pages(static_cast<int64_t>(reinterpret_cast<uintptr_t>(data))));
  const int64_t whole =
      (bytes - (begin - data)) / round_to_pages(1) * round_to_pages(1);
  // Without effect where the system cannot: the pages are used again anyway.
  if (whole > 0) ::madvise(begin, static_cast<size_t>(whole), MADV_REMOVE);
}

}  // namespace

void fill_with_poison(void* data, int64_t bytes) {
  std::memset(data, 0xFF, static_cast<size_t>(bytes));
}

absl::StatusOr<void*> DeviceMemory::allocate(int64_t bytes,
                                             absl::string_view label) {
  if (bytes <= 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("device memory: \"", label, "\" asks for ", bytes,
                     " bytes; an arena has at least one"));
  }
  if (bytes > limit_bytes_ || round_up(bytes) > limit_bytes_ - used_bytes_) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "device memory: \"", label, "\" needs ", bytes, " bytes, and ",
        limit_bytes_ - used_bytes_, " of ", limit_bytes_, " are free"));
  }
  ASSIGN_OR_RETURN(char* const data, place(round_up(bytes)));
  used_bytes_ += round_up(bytes);
  arenas_.emplace(data, Arena{data, bytes, std::string(label)});
  if (poison_) fill_with_poison(data, round_up(bytes));
  return data;
}

absl::StatusOr<char*> DeviceMemory::place(int64_t bytes) {
  for (Region& region : regions_) {
    const auto hole = std::find_if(
        region.holes.begin(), region.holes.end(),
        [bytes](const auto& candidate) { return candidate.second >= bytes; });
    if (hole == region.holes.end()) continue;
    const auto [offset, size] = *hole;
    region.holes.erase(hole);
    if (size > bytes) region.holes.emplace(offset + bytes, size - bytes);
    return region.mapping.data() + offset;
  }
  const int64_t size = round_to_pages(std::max(bytes, kRegionBytes));
  ASSIGN_OR_RETURN(const MemoryFile file,
                   MemoryFile::create("ferry-device", size));
  Region region;
  ASSIGN_OR_RETURN(region.mapping,
                   Mapping::map(file.fd(), 0, size, PROT_READ | PROT_WRITE));
  if (size > bytes) region.holes.emplace(bytes, size - bytes);
  char* const data = region.mapping.data();
  regions_.push_back(std::move(region));
  return data;
}

void DeviceMemory::free(void* data) {
  const auto arena = arenas_.find(static_cast<char*>(data));
  FERRY_CHECK(arena != arenas_.end());
  const int64_t bytes = round_up(arena->second.bytes);
  char* const begin = arena->second.data;
  arenas_.erase(arena);
  used_bytes_ -= bytes;
  if (poison_) {
    fill_with_poison(begin, bytes);
  } else {
    drop_pages(begin, bytes);
  }
  for (Region& region : regions_) {
    const int64_t offset = begin - region.mapping.data();
    if (offset < 0 || offset >= region.mapping.bytes()) continue;
    auto hole = region.holes.emplace(offset, bytes).first;
    const auto next = std::next(hole);
    if (next != region.holes.end() && next->first == offset + bytes) {
      hole->second += next->second;
      region.holes.erase(next);
    }
    if (hole == region.holes.begin()) return;
    const auto previous = std::prev(hole);
    if (previous->first + previous->second == offset) {
      previous->second += hole->second;
      region.holes.erase(hole);
    }
    return;
  }
}

const DeviceMemory::Arena* DeviceMemory::find(const void* data,
                                              int64_t bytes) const {
  const char* const begin = static_cast<const char*>(data);
  auto next = arenas_.upper_bound(begin);
  if (next == arenas_.begin()) return nullptr;
  const Arena& arena = std::prev(next)->second;
  const int64_t offset = begin - arena.data;
  if (bytes < 0 || offset > arena.bytes - bytes) return nullptr;
  return &arena;
}

bool DeviceMemory::contains(const void* data) const {
  const char* const address = static_cast<const char*>(data);
  return std::any_of(
      regions_.begin(), regions_.end(), [address](const Region& region) {
        return address >= region.mapping.data() &&
               address < region.mapping.data() + region.mapping.bytes();
      });
}

}  // namespace ferry
