#include "tests/support/error_details.h"

#include "absl/strings/str_cat.h"
#include "google/rpc/code.pb.h"
#include "google/rpc/error_details.pb.h"

namespace ferry {

std::string ErrorDetails::violation_of(const std::string& field) const {
  for (const auto& [name, description] : violations) {
    if (name == field) return description;
  }
  return "";
}

std::vector<std::string> ErrorDetails::violated_fields() const {
  std::vector<std::string> fields;
  for (const auto& violation : violations) fields.push_back(violation.first);
  return fields;
}

ErrorDetails parse_details(const google::rpc::Status& status) {
  ErrorDetails details;
  for (const google::protobuf::Any& any : status.details()) {
    google::rpc::ErrorInfo info;
    google::rpc::BadRequest bad_request;
    google::rpc::RetryInfo retry;
    google::rpc::ResourceInfo resource;
    if (any.UnpackTo(&info)) {
      details.reason = info.reason();
      details.domain = info.domain();
      details.metadata = {info.metadata().begin(), info.metadata().end()};
    } else if (any.UnpackTo(&bad_request)) {
      for (const auto& violation : bad_request.field_violations()) {
        details.violations.emplace_back(violation.field(),
                                        violation.description());
      }
    } else if (any.UnpackTo(&retry)) {
      details.retry_delay = absl::Seconds(retry.retry_delay().seconds()) +
                            absl::Nanoseconds(retry.retry_delay().nanos());
    } else if (any.UnpackTo(&resource)) {
      details.resource_type = resource.resource_type();
      details.resource_name = resource.resource_name();
    }
  }
  return details;
}

ErrorDetails parse_details(const grpc::Status& status) {
  google::rpc::Status parsed;
  if (!parsed.ParseFromString(status.error_details())) return {};
  return parse_details(parsed);
}

std::string describe(const grpc::Status& status) {
  if (status.ok()) return "OK";
  return absl::StrCat(
      google::rpc::Code_Name(static_cast<int>(status.error_code())), " ",
      parse_details(status).reason, ": ", status.error_message());
}

}  // namespace ferry
