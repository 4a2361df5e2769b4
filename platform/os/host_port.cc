#include "platform/os/host_port.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace ferry {
namespace {

bool parse_port(absl::string_view text, uint16_t* port) {
  uint32_t number = 0;
  if (text.empty() || text.size() > 5 ||
      !std::all_of(text.begin(), text.end(), absl::ascii_isdigit) ||
      !absl::SimpleAtoi(text, &number) || number > 65535) {
    return false;
  }
  *port = static_cast<uint16_t>(number);
  return true;
}

}  // namespace

std::string HostPort::to_string() const {
  const bool is_ipv6 = host.find(':') != std::string::npos;
  return absl::StrCat(is_ipv6 ? "[" : "", host, is_ipv6 ? "]:" : ":", port);
}

absl::StatusOr<HostPort> parse_host_port(absl::string_view text) {
  HostPort result;
  const size_t colon = text.rfind(':');
  if (colon != absl::string_view::npos &&
      parse_port(text.substr(colon + 1), &result.port)) {
    absl::string_view host = text.substr(0, colon);
    const bool in_brackets =
        absl::ConsumePrefix(&host, "[") && absl::ConsumeSuffix(&host, "]");
    const bool has_colon = host.find(':') != absl::string_view::npos;
    if (!host.empty() && has_colon == in_brackets) {
      result.host = std::string(host);
      return result;
    }
  }
  return absl::InvalidArgumentError(
      absl::StrCat("must be HOST:PORT or [IPV6]:PORT, got \"", text, "\""));
}

}  // namespace ferry
