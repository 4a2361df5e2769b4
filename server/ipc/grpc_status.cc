#include "server/ipc/grpc_status.h"

#include <string>

#include "server/ipc/rpc_status.h"

namespace ferry {

grpc::Status to_grpc_status(const absl::Status& status) {
  return to_grpc_status(to_rpc_status(status));
}

grpc::Status to_grpc_status(const google::rpc::Status& status) {
  if (status.code() == 0) return grpc::Status::OK;
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()),
                      status.message(), status.SerializeAsString());
}

absl::Status from_grpc_status(const grpc::Status& status) {
  google::rpc::Status details;
  if (!details.ParseFromString(status.error_details())) details.Clear();
  details.set_code(status.error_code());
  details.set_message(status.error_message());
  return from_rpc_status(details);
}

}  // namespace ferry
