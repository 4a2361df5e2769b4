#pragma once

#include "absl/status/status.h"
#include "google/rpc/status.pb.h"
#include "grpcpp/support/status.h"

namespace ferry {

// absl::Status ↔ grpc::Status: the only place where one becomes the other. The
// details travel as a google.rpc.Status (rpc_status.h, which also says how they
// are cut), so an error that a worker reports reaches ferryd's client
// unchanged.
//
// Threads: free functions without state.

grpc::Status to_grpc_status(const absl::Status& status);

// For an error that is stored as a message, such as Job.error.
grpc::Status to_grpc_status(const google::rpc::Status& status);

// The status's own code and message win over those in its details; details
// that are no google.rpc.Status are left out.
absl::Status from_grpc_status(const grpc::Status& status);

}  // namespace ferry
