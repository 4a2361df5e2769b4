#pragma once

#include <optional>

#include "absl/status/status.h"
#include "google/protobuf/message.h"
#include "server/core/errors.h"

namespace ferry {

// Requests hold only fields that this server knows: a client that speaks a
// later API learns it, and is not served something else than it asked for.
//
// Threads: free functions without state.

// UNKNOWN_PARAMETER for the first field of `message`, or of a message in it,
// that the API does not have, named by path and number, such as
// spec.output.900; nothing when there is none.
std::optional<FieldViolation> find_unknown_field(
    const google::protobuf::Message& message);

// field_errors() of the same.
absl::Status check_known_fields(const google::protobuf::Message& request);

}  // namespace ferry
