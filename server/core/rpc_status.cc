#include "server/core/rpc_status.h"

#include <map>
#include <optional>
#include <utility>

#include "absl/strings/cord.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "google/rpc/error_details.pb.h"
#include "platform/base/check.h"
#include "platform/base/error_info.h"
#include "platform/base/utf8.h"

namespace ferry {
namespace {

constexpr absl::string_view kDomain = "ferry.v1";
constexpr absl::string_view kRpcTypeUrl = "type.googleapis.com/google.rpc.";
constexpr absl::string_view kErrorInfoUrl =
    "type.googleapis.com/google.rpc.ErrorInfo";
constexpr absl::string_view kBadRequestUrl =
    "type.googleapis.com/google.rpc.BadRequest";
constexpr size_t kMaxMessageBytes = 1024;
constexpr size_t kMaxReasonBytes = 63;
constexpr size_t kMaxValueBytes = 200;
constexpr size_t kMaxMetadata = 16;
constexpr size_t kMaxViolationBytes = 300;

size_t total_bytes(const google::rpc::Status& status) {
  return status.message().size() + status.ByteSizeLong();
}

google::rpc::ErrorInfo make_error_info(const ErrorInfo& info) {
  google::rpc::ErrorInfo result;
  result.set_domain(std::string(kDomain));
  result.set_reason(clean_text(info.reason, kMaxReasonBytes));
  size_t count = 0;
  for (const auto& [key, value] : info.metadata) {
    if (++count > kMaxMetadata) break;
    (*result.mutable_metadata())[clean_text(key, kMaxReasonBytes)] =
        clean_text(value, kMaxValueBytes);
  }
  return result;
}

void add_detail(absl::string_view type_url, std::string bytes,
                google::rpc::Status* status) {
  google::protobuf::Any* any = status->add_details();
  any->set_type_url(std::string(type_url));
  any->set_value(std::move(bytes));
}

// As many violations as fit, then "and N more".
google::rpc::BadRequest cut_violations(const google::rpc::BadRequest& all,
                                       size_t max_bytes) {
  google::rpc::BadRequest result;
  // Room for the last entry and for the lengths around it all.
  constexpr size_t kReserve = 64;
  int kept = 0;
  for (const auto& violation : all.field_violations()) {
    google::rpc::BadRequest::FieldViolation cut;
    cut.set_field(clean_text(violation.field(), kMaxViolationBytes));
    cut.set_description(
        clean_text(violation.description(), kMaxViolationBytes));
    if (result.ByteSizeLong() + cut.ByteSizeLong() + kReserve > max_bytes) {
      break;
    }
    *result.add_field_violations() = std::move(cut);
    ++kept;
  }
  if (const int left = all.field_violations_size() - kept; left > 0) {
    result.add_field_violations()->set_description(
        absl::StrCat("and ", left, " more"));
  }
  return result;
}

void add_bad_request(const std::string& bytes, google::rpc::Status* status) {
  google::rpc::BadRequest all;
  if (!all.ParseFromString(bytes)) return;
  const size_t used = total_bytes(*status) + kBadRequestUrl.size() + 16;
  if (used >= kMaxStatusBytes) return;
  add_detail(kBadRequestUrl,
             cut_violations(all, kMaxStatusBytes - used).SerializeAsString(),
             status);
}

}  // namespace

std::string clean_text(absl::string_view text, size_t max_bytes) {
  constexpr absl::string_view kEllipsis = "…";
  FERRY_CHECK_GE(max_bytes, kEllipsis.size());
  std::string result;
  // Where to cut so that the ellipsis fits.
  size_t cut = 0;
  while (!text.empty()) {
    const size_t length = utf8_valid_length(text);
    if (result.size() + (length == 0 ? 1 : length) > max_bytes) {
      result.resize(cut);
      return result += std::string(kEllipsis);
    }
    if (length == 0) {
      result += '?';
    } else {
      result.append(text.data(), length);
    }
    text.remove_prefix(length == 0 ? 1 : length);
    if (result.size() + kEllipsis.size() <= max_bytes) cut = result.size();
  }
  return result;
}

google::rpc::Status to_rpc_status(const absl::Status& status) {
  google::rpc::Status result;
  if (status.ok()) return result;
  result.set_code(static_cast<int>(status.code()));
  result.set_message(clean_text(status.message(), kMaxMessageBytes));

  // Payloads come in no set order.
  std::map<std::string, std::string> payloads;
  status.ForEachPayload([&](absl::string_view url, const absl::Cord& payload) {
    if (absl::StartsWith(url, kRpcTypeUrl)) {
      payloads[std::string(url)] = std::string(payload);
    }
  });
  const std::optional<ErrorInfo> info = get_error_info(status);
  if (info.has_value() || payloads.count(std::string(kErrorInfoUrl)) == 0) {
    payloads[std::string(kErrorInfoUrl)] =
        make_error_info(info.value_or(ErrorInfo{
                            absl::StatusCodeToString(status.code()), {}}))
            .SerializeAsString();
  }

  const auto add_if_it_fits = [&](const std::string& url,
                                  const std::string& bytes) {
    if (total_bytes(result) + url.size() + bytes.size() + 16 <=
        kMaxStatusBytes) {
      add_detail(url, bytes, &result);
      return true;
    }
    return false;
  };
  const auto error_info = payloads.find(std::string(kErrorInfoUrl));
  if (!add_if_it_fits(error_info->first, error_info->second)) {
    google::rpc::ErrorInfo full;
    full.ParseFromString(error_info->second);
    full.clear_metadata();
    add_if_it_fits(error_info->first, full.SerializeAsString());
  }
  payloads.erase(error_info);
  // The violations take what the others leave.
  std::string bad_request;
  if (const auto it = payloads.find(std::string(kBadRequestUrl));
      it != payloads.end()) {
    bad_request = std::move(it->second);
    payloads.erase(it);
  }
  for (const auto& [url, bytes] : payloads) add_if_it_fits(url, bytes);
  if (!bad_request.empty()) add_bad_request(bad_request, &result);
  return result;
}

absl::Status from_rpc_status(const google::rpc::Status& status) {
  if (status.code() == 0) return absl::OkStatus();
  absl::Status result(static_cast<absl::StatusCode>(status.code()),
                      status.message());
  for (const google::protobuf::Any& detail : status.details()) {
    google::rpc::ErrorInfo info;
    if (detail.Is<google::rpc::ErrorInfo>() && detail.UnpackTo(&info) &&
        info.domain() == kDomain) {
      result = with_error_info(
          std::move(result),
          {info.reason(), {info.metadata().begin(), info.metadata().end()}});
    } else {
      result.SetPayload(detail.type_url(), absl::Cord(detail.value()));
    }
  }
  return result;
}

}  // namespace ferry
