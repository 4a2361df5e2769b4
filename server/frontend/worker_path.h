#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace ferry {

// The worker's program: `configured` when it is not empty, else
// `../worker/ferry_worker` or `ferry_worker`, seen from the directory of
// `executable` (ferryd's own path). NOT_FOUND names the places where no program
// is.
absl::StatusOr<std::string> find_worker(const std::string& configured,
                                        const std::string& executable);

// The path of the running program.
absl::StatusOr<std::string> own_path();

}  // namespace ferry
