#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ferry/config/v1/server_config.pb.h"
#include "server/core/daemon_config.h"

namespace ferry {

// From a configuration file and flags to the one DaemonConfig:
//
//   read_server_config(file) → apply_flag(…) for each flag that was given →
//   make_daemon_config() → DaemonConfig
//
// Errors: INVALID_ARGUMENT, NOT_FOUND for a file that is not there. A message
//   names the file with line and column, the flag, or the field with its flag;
//   all of a step's errors come at once, one a line.
// Threads: free functions without state.

// Reads a file in text format. Unknown and repeated fields are errors.
absl::StatusOr<config::v1::ServerConfig> read_server_config(
    const std::string& path);

// The same for text; `file_name` stands in the errors.
absl::StatusOr<config::v1::ServerConfig> parse_server_config(
    const std::string& text, absl::string_view file_name);

// Puts a flag's text into the field of the same name, over what is there.
// Durations are "1m30s", bytes take the suffixes Ki, Mi and Gi, truth values
// are true or false. `pipeline` is NAME=DIR[,NAME=DIR…] and replaces all
// pipelines of the file; a pipeline of the file with the same name keeps its
// other settings. `ranks` and `external_ranks` are N for every pipeline or
// NAME=N[,NAME=N…], and come after `pipeline`.
absl::Status apply_flag(absl::string_view name, absl::string_view value,
                        config::v1::ServerConfig* config);

// Names of the flags that apply_flag() takes.
std::vector<std::string> config_flag_names();

// Fills in the defaults and checks everything, also that each pipeline's
// directory exists.
absl::StatusOr<DaemonConfig> make_daemon_config(
    const config::v1::ServerConfig& config);

// The effective configuration in text format, every field set; it reads back
// as the same DaemonConfig.
std::string print_daemon_config(const DaemonConfig& config);

}  // namespace ferry
