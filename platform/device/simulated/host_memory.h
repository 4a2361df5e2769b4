#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "platform/device/mapping.h"
#include "platform/device/resource_owner.h"

namespace ferry {

// Host arenas of a simulated device. Each is mapped twice: where the host has
// its address the bytes are unreadable (PROT_NONE) outside of an access, and
// the copy engine has a mapping of its own. So a kernel that is given a host
// image ends the process, and copying needs no change of protection.
//
// Allocated arenas are files called "ferry-host"; mapped ones are the file that
// was given.
//
// Not thread-safe.
class HostMemory {
 public:
  struct Arena {
    Mapping mapping;
    Mapping engine_mapping;
    // As asked for.
    int64_t bytes = 0;
    // Of a file, and read-only.
    bool is_file = false;
    std::string label;
    int readers = 0;
    int writers = 0;
  };

  absl::StatusOr<void*> allocate(int64_t bytes, absl::string_view label);
  absl::StatusOr<void*> map_file(int fd, int64_t offset, int64_t bytes,
                                 absl::string_view label);
  // REQUIRES: `data` is an arena's.
  void free(void* data);

  // The arena that all of these bytes lie in, or null.
  const Arena* find(const void* data, int64_t bytes) const;
  // Whether the address lies in an arena.
  bool contains(const void* data) const { return find(data, 0) != nullptr; }
  // Where the copy engine finds these bytes of `arena`.
  static char* engine_address(const Arena& arena, const void* data) {
    return arena.engine_mapping.data() +
           (static_cast<const char*>(data) - arena.mapping.data());
  }

  // Opens an arena to the host, until as many calls of end_access() close it.
  // PERMISSION_DENIED: a write of a file. REQUIRES: the bytes lie in an arena.
  absl::Status begin_access(AccessKind kind, const void* data);
  // REQUIRES: it was begun.
  absl::Status end_access(AccessKind kind, const void* data);

  // Bytes of allocated arenas.
  int64_t used_bytes() const { return used_bytes_; }

 private:
  // The one that the byte lies in.
  Arena& arena_of(const void* data);
  static absl::Status protect(Arena& arena);

  int64_t used_bytes_ = 0;
  // By their address.
  std::map<const char*, Arena> arenas_;
};

}  // namespace ferry
