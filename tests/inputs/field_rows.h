#pragma once

#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "grpcpp/support/status.h"
#include "tests/inputs/probes.h"

namespace ferry {

// What a call must end with.
struct Verdict {
  grpc::StatusCode code = grpc::StatusCode::OK;
  // Reason of the ErrorInfo.
  std::string reason;
  // Fields of the BadRequest.
  std::vector<std::string> fields;
};

// What is known of one field of one request.
struct FieldRow {
  // "ferry.v1.GenerationService/Generate".
  std::string method;
  // Path in the request, "spec.height". Empty: every field, since the server
  // does not serve the method.
  std::string field;
  ProbeValues values;
  // The answer to a typed value.
  std::function<Verdict(const Probe& probe)> verdict;
};

// For GoogleTest.
inline void PrintTo(const FieldRow& row, std::ostream* out) {
  *out << row.method << " " << row.field;
}

// In place of the name of a job that has ended.
constexpr char kJobPlaceholder[] = "@job";
// The pipeline of the daemon under test.
constexpr char kPipeline[] = "pipelines/tiny";

// One row for each field of each request of ferry.v1's services.
std::vector<FieldRow> field_rows();

}  // namespace ferry
