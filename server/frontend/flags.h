#pragma once

#include <string>

#include "absl/flags/declare.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "platform/base/command_line.h"
#include "server/core/daemon_config.h"

ABSL_DECLARE_FLAG(bool, validate_config);
ABSL_DECLARE_FLAG(bool, print_effective_config);

namespace ferry {

// The file that defines ferryd's flags, for parse_command_line().
absl::string_view flags_file();

// How ferryd is used, without the flags.
const char* usage();

// The configuration of --config and of the flags over it, checked as a whole.
// Errors name flag, field or file; one a line. Positional arguments are
// errors.
absl::StatusOr<DaemonConfig> configure(const CommandLine& line);

}  // namespace ferry
