#pragma once

#include <map>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace ferry {

// What google.rpc.ErrorInfo says, without protobuf: a stable reason in
// UPPER_SNAKE_CASE of at most 63 characters, and the values that the message
// shows.
struct ErrorInfo {
  std::string reason;
  std::map<std::string, std::string> metadata;
};

// Attaches `info` to an error, in place of one that it may carry.
// `server/ipc/grpc_status.h` turns it into the detail that clients see.
// REQUIRES: !status.ok().
absl::Status with_error_info(absl::Status status, const ErrorInfo& info);

// Makes an error with its reason.
absl::Status make_error(absl::StatusCode code, absl::string_view message,
                        const ErrorInfo& info);

// Returns what with_error_info attached, or nothing.
std::optional<ErrorInfo> get_error_info(const absl::Status& status);

}  // namespace ferry
