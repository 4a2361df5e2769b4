#include "platform/base/error_info.h"

#include <utility>
#include <vector>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "platform/base/check.h"

namespace ferry {
namespace {

constexpr absl::string_view kTypeUrl = "ferry/ErrorInfo";
// Reason, then keys and values in turn. It stands in no reason, key or value.
constexpr char kSeparator = '\0';

}  // namespace

absl::Status with_error_info(absl::Status status, const ErrorInfo& info) {
  FERRY_CHECK(!status.ok());
  std::string payload = info.reason;
  for (const auto& [key, value] : info.metadata) {
    payload += kSeparator;
    payload += key;
    payload += kSeparator;
    for (const char c : value) payload += c == kSeparator ? ' ' : c;
  }
  status.SetPayload(kTypeUrl, absl::Cord(payload));
  return status;
}

absl::Status make_error(absl::StatusCode code, absl::string_view message,
                        const ErrorInfo& info) {
  return with_error_info(absl::Status(code, message), info);
}

std::optional<ErrorInfo> get_error_info(const absl::Status& status) {
  const absl::optional<absl::Cord> payload = status.GetPayload(kTypeUrl);
  if (!payload.has_value()) return std::nullopt;
  const std::vector<std::string> parts =
      absl::StrSplit(std::string(*payload), kSeparator);
  ErrorInfo info;
  info.reason = parts[0];
  for (size_t i = 1; i + 1 < parts.size(); i += 2) {
    info.metadata[parts[i]] = parts[i + 1];
  }
  return info;
}

}  // namespace ferry
