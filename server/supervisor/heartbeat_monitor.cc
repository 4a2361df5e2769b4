#include "server/supervisor/heartbeat_monitor.h"

#include "absl/strings/str_cat.h"

namespace ferry {
namespace {

absl::Duration duration_of(const google::protobuf::Duration& value) {
  return absl::Seconds(value.seconds()) + absl::Nanoseconds(value.nanos());
}

}  // namespace

std::optional<std::string> HeartbeatMonitor::on_answer(
    const worker::v1::HeartbeatResponse& answer) {
  missed_ = 0;
  if (answer.has_since_cancel() &&
      duration_of(answer.since_cancel()) > options_.cancel_grace) {
    return absl::StrCat(
        "runs ", answer.job(), ", which was cancelled and did not end within ",
        absl::FormatDuration(options_.cancel_grace), " (cancel_grace)");
  }
  if (duration_of(answer.since_progress()) > options_.step_timeout) {
    return absl::StrCat("runs ", answer.job(), ", which made no progress for ",
                        absl::FormatDuration(options_.step_timeout),
                        " (step_timeout)");
  }
  return std::nullopt;
}

std::optional<std::string> HeartbeatMonitor::on_timeout() {
  if (++missed_ < kAttempts) return std::nullopt;
  return absl::StrCat("did not answer for ",
                      absl::FormatDuration(options_.heartbeat_timeout),
                      " (heartbeat_timeout)");
}

}  // namespace ferry
