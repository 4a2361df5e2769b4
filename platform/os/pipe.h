#pragma once

#include "absl/status/statusor.h"
#include "platform/os/unique_fd.h"

namespace ferry {

// A pipe: what is written at one end is read at the other.
struct Pipe {
  UniqueFd read_end;
  UniqueFd write_end;
};

// Makes a pipe whose ends block and are closed by exec. Fails with
// RESOURCE_EXHAUSTED when no descriptor is left.
absl::StatusOr<Pipe> make_pipe();

}  // namespace ferry
