#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "google/rpc/status.pb.h"
#include "grpcpp/support/status.h"

namespace ferry {

// The google.rpc details of an error, as a client reads them.
struct ErrorDetails {
  // ErrorInfo.
  std::string reason;
  std::string domain;
  std::map<std::string, std::string> metadata;
  // BadRequest: field → description, in order.
  std::vector<std::pair<std::string, std::string>> violations;
  // RetryInfo.
  std::optional<absl::Duration> retry_delay;
  // ResourceInfo.
  std::string resource_type;
  std::string resource_name;

  // Description of the field's violation; empty when there is none.
  std::string violation_of(const std::string& field) const;
  std::vector<std::string> violated_fields() const;
};

ErrorDetails parse_details(const google::rpc::Status& status);
ErrorDetails parse_details(const grpc::Status& status);

// "CODE REASON: message", for failure messages of tests.
std::string describe(const grpc::Status& status);

}  // namespace ferry
