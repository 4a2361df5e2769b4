#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace ferry {

// What a worker that ferryd has not started shows to be let in; both read it
// from a file. It must not be logged.
//
// Threads: free functions without state.

// The token in a file, without the white space around it. INVALID_ARGUMENT: the
// file cannot be read or holds something else than 16 to 256 printable ASCII
// characters without a space.
absl::StatusOr<std::string> read_worker_token(const std::string& path);

// Whether both are equal, in a time that does not tell where they differ.
bool tokens_equal(absl::string_view a, absl::string_view b);

}  // namespace ferry
