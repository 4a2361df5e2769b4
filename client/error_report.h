#pragma once

#include <grpcpp/support/status.h>

#include <ostream>
#include <string>

#include "absl/strings/string_view.h"
#include "google/rpc/status.pb.h"

namespace ferry {

// What people see of an error: `CODE REASON: message`, then a line for each
// wrong field and for the time after which to try again. Control characters
// are escaped, since the text may come from elsewhere. (A server that tells an
// error of code 0 is shown as it says: OK.)
std::string describe_error(const google::rpc::Status& error);
std::string describe_error(const grpc::Status& error);

// Prints the error and returns ferryctl's exit code for it.
int report_error(const grpc::Status& error, std::ostream* err);

// Text for a terminal or a line of output.
std::string printable(absl::string_view text);

}  // namespace ferry
