#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace ferry {

// One builder for each failure that a client can see: its code, its reason
// (google.rpc.ErrorInfo, domain ferry.v1) and its further details. What a code
// says to the caller:
//
//   INVALID_ARGUMENT     the request is wrong, whatever the server's state
//   NOT_FOUND            no such pipeline or job
//   FAILED_PRECONDITION  do not retry before an operator has acted
//   RESOURCE_EXHAUSTED   too much at once: retry after RetryInfo
//   UNAVAILABLE          retry, after RetryInfo where given
//   DEADLINE_EXCEEDED    a time limit of the client or the queue has passed
//   CANCELLED            somebody asked for it
//   UNIMPLEMENTED        this server does not do that
//   INTERNAL             a defect of the server or of a pipeline
//
// Threads: free functions without state.

// What is wrong with one field of a request.
struct FieldViolation {
  enum class Kind {
    // INVALID_FIELD: out of range, malformed, missing.
    kInvalid,
    // UNKNOWN_PARAMETER: no such key, value of a list, or field number.
    kUnknown,
    // CONFLICTING_FIELDS: cannot be combined.
    kConflicting,
    // LIMIT_EXCEEDED: over a configured cap.
    kLimit,
    // FIELD_NOT_SUPPORTED: belongs to a feature that the server lacks.
    kNotSupported,
  };
  Kind kind = Kind::kInvalid;
  // Proto path, such as spec.height.
  std::string field;
  // What would be right, and what came.
  std::string description;
  // Values that the description shows, such as limit and value.
  std::map<std::string, std::string> metadata;
};

// All violations in one error. UNIMPLEMENTED when every one is kNotSupported,
// else INVALID_ARGUMENT; the reason is that of the kind, or INVALID_FIELD when
// kinds are mixed.
// REQUIRES: !violations.empty().
absl::Status field_errors(const std::vector<FieldViolation>& violations);

// One wrong field.
absl::Status invalid_field(absl::string_view field,
                           absl::string_view description);

absl::Status invalid_page_token();

// A message that Protobuf cannot parse; `text_field` is the full name of the
// field whose text is no UTF-8, or empty when something else is wrong.
absl::Status unparsable_request(absl::string_view text_field);

// A call of the API that this server does not serve; reason
// METHOD_NOT_SUPPORTED.
absl::Status method_not_supported(absl::string_view method);
absl::Status task_not_supported(absl::string_view pipeline,
                                absl::string_view task);

// `name` as the client gave it.
absl::Status pipeline_not_found(absl::string_view name);
absl::Status job_not_found(absl::string_view name);
absl::Status job_expired(absl::string_view name);

// The pipeline is known and cannot take requests now, or any more.
absl::Status pipeline_loading(absl::string_view name,
                              absl::Duration retry_delay);
absl::Status pipeline_failed(absl::string_view name, absl::string_view why);

absl::Status queue_full(absl::string_view pipeline, absl::string_view limit,
                        int64_t limit_value, absl::Duration retry_delay);
absl::Status too_many_streams(int limit, absl::Duration retry_delay);
absl::Status server_draining(absl::Duration retry_delay);

absl::Status queue_timeout(absl::Duration waited);
// The client's deadline has passed; reason DEADLINE_EXCEEDED.
absl::Status deadline_exceeded();
absl::Status deadline_unreachable(absl::Duration estimate,
                                  absl::Duration remaining);
// The generation ran longer than the server allows; reason RUN_TIMEOUT.
absl::Status run_timeout(absl::Duration limit);

// The client closed its stream.
absl::Status client_cancelled();
// Somebody called CancelJob.
absl::Status job_cancelled();

// The process of a rank died, hung or broke; `why` is for people.
absl::Status worker_lost(absl::string_view pipeline, absl::string_view why);
// The client read its stream too slowly; reason SLOW_READER.
absl::Status slow_reader(absl::Duration limit);
// A defect; reason INTERNAL.
absl::Status internal_error(absl::string_view what);

}  // namespace ferry
