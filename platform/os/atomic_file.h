#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace ferry {

// Writes a file so that readers see the old one or the whole new one, also
// after a crash: a temporary file in the same directory, fsync, rename.
// Permissions are those of a new file (0666 without the umask).
// Errors name the path; nothing is left behind then.
absl::Status write_file_atomically(const std::string& path,
                                   absl::string_view content);

}  // namespace ferry
