#include <string>
#include <utility>

#include "absl/strings/str_split.h"
#include "platform/base/utf8.h"
#include "server/core/config_loader.h"
#include "server/core/daemon_config.h"
#include "tests/fuzz/fuzz_targets.h"

namespace ferry {
namespace {

void check_config(const config::v1::ServerConfig& config) {
  const auto checked = make_daemon_config(config);
  if (!checked.ok()) {
    require(absl::IsInvalidArgument(checked.status()), "INVALID_ARGUMENT");
    require(!checked.status().message().empty(), "the error says something");
    return;
  }
  const std::string text = print_daemon_config(*checked);
  require(is_utf8(text), "what is printed is UTF-8");
  const auto parsed = parse_server_config(text, "printed");
  require(parsed.ok(), "what is printed can be parsed");
  const auto again = make_daemon_config(*parsed);
  require(again.ok() && print_daemon_config(*again) == text,
          "it reads back as itself");
}

}  // namespace

// The file of --config.
void fuzz_server_config(absl::string_view input) {
  const auto config = parse_server_config(std::string(input), "input");
  if (!config.ok()) {
    require(absl::IsInvalidArgument(config.status()), "INVALID_ARGUMENT");
    return;
  }
  check_config(*config);
}

// Flags, NAME=VALUE, one a line.
void fuzz_flags(absl::string_view input) {
  config::v1::ServerConfig config;
  for (const absl::string_view line : absl::StrSplit(input, '\n')) {
    const std::pair<absl::string_view, absl::string_view> parts =
        absl::StrSplit(line, absl::MaxSplits('=', 1));
    const absl::Status status = apply_flag(parts.first, parts.second, &config);
    require(status.ok() || absl::IsInvalidArgument(status), "INVALID_ARGUMENT");
  }
  check_config(config);
}

}  // namespace ferry
