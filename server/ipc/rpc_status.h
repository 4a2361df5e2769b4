#pragma once

#include <cstddef>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "google/rpc/status.pb.h"

namespace ferry {

// absl::Status ↔ google.rpc.Status: what clients see of an error, in a
// stream's status (grpc_status.h) as in Job.error and Pipeline.error.
//
// The details are, in order: an ErrorInfo (reason and metadata of
// platform/base/error_info.h; an error without one gets its code's name as the
// reason), then every payload whose type url starts with
// "type.googleapis.com/google.rpc.". Other payloads stay inside the server.
//
// Sizes: gRPC replaces a status of more than about 8 KiB by another error, and
// the message travels twice. So message and details stay below 4 KiB in all:
// the message is cut to 1 KiB at a UTF-8 boundary, long values and violations
// are cut, and what still does not fit is left out. Bytes that are not UTF-8
// become '?'.
//
// Threads: free functions without state.

// Upper bound of the message plus the encoded google.rpc.Status.
constexpr size_t kMaxStatusBytes = 4095;

// OK gives the default instance.
google::rpc::Status to_rpc_status(const absl::Status& status);

// The other way round: an ErrorInfo of domain "ferry.v1" becomes the error's
// ErrorInfo, every other detail a payload under its type url.
absl::Status from_rpc_status(const google::rpc::Status& status);

// Cuts `text` to at most `max_bytes` at a UTF-8 boundary, ending in "…" when
// something was cut, and replaces bytes that are not UTF-8 by '?'.
// REQUIRES: max_bytes >= 3.
std::string clean_text(absl::string_view text, size_t max_bytes);

}  // namespace ferry
