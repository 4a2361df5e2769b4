#include "platform/device/simulated/unbound_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <utility>

#include "platform/base/status_macros.h"
#include "platform/device/simulated/device_memory.h"

namespace ferry {
namespace {

constexpr int64_t kFileBytes = int64_t{1} << 20;
// The kernel bounds the mappings of a process.
constexpr int64_t kMaxParts = 1024;

}  // namespace

absl::StatusOr<void*> UnboundMemory::at_least(int64_t bytes) {
  if (!mappings_.empty() && mappings_.back().bytes() >= bytes) {
    return mappings_.back().data();
  }
  const int64_t size = round_to_pages(std::max(bytes, kFileBytes));
  const int64_t file_bytes =
      round_to_pages(std::max(kFileBytes, size / kMaxParts));
  ASSIGN_OR_RETURN(const MemoryFile file,
                   MemoryFile::create("ferry-unbound", file_bytes));
  {
    ASSIGN_OR_RETURN(const Mapping whole, Mapping::map(file.fd(), 0, file_bytes,
                                                       PROT_READ | PROT_WRITE));
    fill_with_poison(whole.data(), file_bytes);
  }
  ASSIGN_OR_RETURN(Mapping mapping,
                   Mapping::repeat(file.fd(), file_bytes, size, PROT_READ));
  mappings_.push_back(std::move(mapping));
  return mappings_.back().data();
}

bool UnboundMemory::contains(const void* data, int64_t bytes) const {
  const char* const begin = static_cast<const char*>(data);
  return std::any_of(mappings_.begin(), mappings_.end(),
                     [begin, bytes](const Mapping& mapping) {
                       return begin >= mapping.data() &&
                              begin - mapping.data() <= mapping.bytes() - bytes;
                     });
}

}  // namespace ferry
