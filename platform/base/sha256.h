#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace ferry {

// SHA-256 of `data`, as 64 lower-case hex digits. Thread-safe.
std::string sha256_hex(absl::string_view data);

}  // namespace ferry
