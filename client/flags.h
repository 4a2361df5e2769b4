#pragma once

#include <set>
#include <string>

#include "absl/flags/declare.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "client/generate_command.h"
#include "platform/base/command_line.h"

ABSL_DECLARE_FLAG(std::string, address);
ABSL_DECLARE_FLAG(bool, json);
ABSL_DECLARE_FLAG(absl::Duration, timeout);

namespace ferry {

// The file that defines ferryctl's flags, for parse_command_line().
absl::string_view flags_file();

// What a generation's flags and prompt ask for. INVALID_ARGUMENT names the
// flag.
absl::StatusOr<GenerateOptions> generate_options(const CommandLine& line,
                                                 const std::string& prompt);

// INVALID_ARGUMENT when a flag was given that only `generate` takes.
absl::Status refuse_generate_flags(const CommandLine& line,
                                   absl::string_view command);

}  // namespace ferry
