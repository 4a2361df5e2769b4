#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace ferry {

// A directory on a file system of its own that has no byte left; files can be
// made there, but not filled. Only this process and those that it starts see
// it, and it goes with them.
//
// REQUIRES: as enter_namespaces(), which checks it.
// An error says why this machine allows no mount.
absl::StatusOr<std::string> mount_full_disk();

// Takes away what fills it.
void free_disk(const std::string& directory);
// Makes it as it was at first.
absl::Status refill_disk(const std::string& directory);

}  // namespace ferry
