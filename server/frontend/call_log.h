#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/status.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "platform/base/clock.h"
#include "platform/base/logging.h"

namespace ferry {

// What a handler tells of its call.
struct CallNotes {
  // `jobs/{job}`.
  std::string job;
  // `pipelines/{pipeline}`.
  std::string pipeline;
};

// The boundary between gRPC and every handler: turns statuses and exceptions
// into what clients see, writes one line a call and counts.
//
// Threads: thread-safe.
class CallLog {
 public:
  using Handler = std::function<absl::Status(CallNotes& notes)>;

  explicit CallLog(const Clock& clock) : clock_(clock) {}
  CallLog(const CallLog&) = delete;
  CallLog& operator=(const CallLog&) = delete;

  // Runs `handler` on the calling thread. `method` is a literal,
  // `package.Service/Method`. `level` is that of the call's line; probes take
  // kDebug.
  grpc::Status run(absl::string_view method, const grpc::ServerContext& context,
                   const Handler& handler, LogLevel level = LogLevel::kInfo);

  // Calls that have ended, and those of them that ended with an error.
  int64_t finished() const { return finished_; }
  int64_t failed() const { return failed_; }
  int64_t in_flight() const { return in_flight_; }

 private:
  const Clock& clock_;
  std::atomic<int64_t> finished_{0};
  std::atomic<int64_t> failed_{0};
  std::atomic<int64_t> in_flight_{0};
};

}  // namespace ferry
