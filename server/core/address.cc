#include "server/core/address.h"

#include <arpa/inet.h>

#include <algorithm>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace ferry {
namespace {

// sockaddr_un::sun_path less its NUL.
constexpr size_t kMaxUnixPath = 107;

bool is_host(absl::string_view host) {
  if (host.empty() || host.size() > 253) return false;
  return std::all_of(host.begin(), host.end(), [](char c) {
    return absl::ascii_isalnum(c) || c == '.' || c == '-' || c == '_';
  });
}

bool is_port(absl::string_view port) {
  int number = 0;
  return !port.empty() && port.size() <= 5 &&
         std::all_of(port.begin(), port.end(), absl::ascii_isdigit) &&
         absl::SimpleAtoi(port, &number) && number <= 65535;
}

bool is_ipv6(absl::string_view host) {
  in6_addr address;
  return inet_pton(AF_INET6, std::string(host).c_str(), &address) == 1;
}

}  // namespace

absl::Status check_address(absl::string_view address) {
  absl::string_view rest = address;
  if (absl::ConsumePrefix(&rest, "unix:")) {
    if (rest.empty() || rest.size() > kMaxUnixPath) {
      return absl::InvalidArgumentError(
          absl::StrCat("the path after unix: must be 1 to ", kMaxUnixPath,
                       " bytes, got ", rest.size()));
    }
    return absl::OkStatus();
  }
  const size_t colon = rest.rfind(':');
  if (colon != absl::string_view::npos && is_port(rest.substr(colon + 1))) {
    absl::string_view host = rest.substr(0, colon);
    if (is_host(host)) return absl::OkStatus();
    if (absl::ConsumePrefix(&host, "[") && absl::ConsumeSuffix(&host, "]") &&
        is_ipv6(host)) {
      return absl::OkStatus();
    }
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "must be HOST:PORT, [IPV6]:PORT or unix:PATH, got \"", address, "\""));
}

}  // namespace ferry
