#pragma once

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "platform/device/device.h"
#include "platform/device/host_arena.h"

namespace ferry {

// One file in memory with the images that all ranks of a host need whole, so
// that the host has them once. Rank 0 writes it, image by image; when it is
// complete the others map the same images in the same order. How they agree on
// that, and that their images are equal, is their start's business.
//
// The size of what is final is sealed, so that no rank can take pages from
// another one. Writes are not: some devices page-lock only what could be
// written. No mapping that could be is left, however.
//
// Ownership: the file outlives it; arenas live on without either, and so do the
//   pages.
// Threads: not thread-safe.
// Errors: RESOURCE_EXHAUSTED, the system gives no more memory;
// FAILED_PRECONDITION, the file is not what it should be.
class SharedImages {
 public:
  // `file` has no bytes yet, or those that the writer wrote.
  SharedImages(int file, bool writes) : file_(file), writes_(writes) {}

  // Whether this rank writes.
  bool writes() const { return writes_; }

  // The next image, as a read-only arena. The writer's `fill` is called with
  // where its bytes go, which are zeros.
  absl::StatusOr<HostArena> add(Device& device, int64_t bytes,
                                absl::string_view label,
                                absl::FunctionRef<void(char* data)> fill);
  // All images are written, and will not be again.
  static absl::Status seal(int file);
  // Gives the pages up, so that others can be written. FAILED_PRECONDITION: it
  // is sealed. Nobody has an arena of it: the ranks have voted on that.
  static absl::Status clear(int file);

 private:
  absl::Status write(int64_t bytes, absl::FunctionRef<void(char* data)> fill);

  const int file_;
  const bool writes_;
  // Where the next image begins: a whole page.
  int64_t end_ = 0;
};

}  // namespace ferry
