#include "server/ipc/worker_hello.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "platform/base/check.h"
#include "platform/base/version.h"

namespace ferry {
namespace {

constexpr char kGreeting[] = "ferry-worker";
constexpr char kAccepted[] = "accepted";
constexpr char kWait[] = "wait ";
constexpr char kRefused[] = "refused ";
constexpr int kMostOfAnything = 1 << 20;

using Values = std::map<absl::string_view, absl::string_view>;

bool is_printable(absl::string_view text) {
  return std::all_of(text.begin(), text.end(), absl::ascii_isgraph);
}

absl::Status no_hello(absl::string_view why) {
  return absl::InvalidArgumentError(
      absl::StrCat("it is no ferry_worker: ", why));
}

// What stands behind the greeting and the version.
absl::StatusOr<Values> parse_values(
    const std::vector<absl::string_view>& words) {
  Values values;
  for (size_t i = 2; i < words.size(); ++i) {
    const std::pair<absl::string_view, absl::string_view> parts =
        absl::StrSplit(words[i], absl::MaxSplits('=', 1));
    if (parts.second.empty() || !values.insert(parts).second) {
      return no_hello("its line holds something else than NAME=VALUE");
    }
  }
  return values;
}

bool take_text(const Values& values, absl::string_view name,
               std::string* text) {
  const auto it = values.find(name);
  if (it == values.end()) return false;
  *text = std::string(it->second);
  return true;
}

template <typename Number>
bool take_number(const Values& values, absl::string_view name, int64_t most,
                 Number* number) {
  const auto it = values.find(name);
  int64_t value = 0;
  if (it == values.end() || !absl::SimpleAtoi(it->second, &value) ||
      value < 0 || value > most) {
    return false;
  }
  *number = static_cast<Number>(value);
  return true;
}

}  // namespace

std::string format_hello(const WorkerHello& hello) {
  for (const std::string* const text :
       {&hello.token, &hello.pipeline, &hello.host, &hello.listen_host}) {
    FERRY_CHECK(!text->empty());
    FERRY_CHECK(is_printable(*text));
  }
  return absl::StrCat(kGreeting, " ", kVersion, " token=", hello.token,
                      " pipeline=", hello.pipeline, " rank=", hello.rank,
                      " world_size=", hello.world_size,
                      " device=", hello.device_index, " pid=", hello.pid,
                      " host=", hello.host, " listen_host=", hello.listen_host,
                      "\n");
}

absl::StatusOr<WorkerHello> parse_hello(absl::string_view line) {
  const std::vector<absl::string_view> words = absl::StrSplit(line, ' ');
  if (line.size() > kMaxHelloBytes || words[0] != kGreeting ||
      words.size() < 2 ||
      !std::all_of(words.begin(), words.end(), is_printable)) {
    return no_hello("its line is something else than who it is");
  }
  if (words[1] != kVersion) {
    return absl::InvalidArgumentError(absl::StrCat(
        "it is ferry_worker ", words[1].substr(0, 32), " and this is ferryd ",
        kVersion, "; they must be of one version"));
  }
  const absl::StatusOr<Values> values = parse_values(words);
  if (!values.ok()) return values.status();
  WorkerHello hello;
  if (values->size() == 8 && take_text(*values, "token", &hello.token) &&
      take_text(*values, "pipeline", &hello.pipeline) &&
      take_number(*values, "rank", kMostOfAnything, &hello.rank) &&
      take_number(*values, "world_size", kMostOfAnything, &hello.world_size) &&
      take_number(*values, "device", kMostOfAnything, &hello.device_index) &&
      take_number(*values, "pid", INT64_MAX, &hello.pid) &&
      take_text(*values, "host", &hello.host) &&
      take_text(*values, "listen_host", &hello.listen_host)) {
    return hello;
  }
  return no_hello("its line does not say all that a worker says");
}

std::string format_answer(const absl::Status& status) {
  if (status.ok()) return absl::StrCat(kAccepted, "\n");
  const bool may_pass = absl::IsAlreadyExists(status) ||
                        absl::IsResourceExhausted(status) ||
                        absl::IsUnavailable(status);
  std::string line =
      absl::StrCat(may_pass ? kWait : kRefused, status.message());
  for (char& c : line) {
    if (absl::ascii_iscntrl(c)) c = ' ';
  }
  line.resize(std::min(line.size(), kMaxHelloBytes));
  return absl::StrCat(line, "\n");
}

absl::Status parse_answer(absl::string_view line) {
  if (line == kAccepted) return absl::OkStatus();
  if (absl::ConsumePrefix(&line, kWait)) return absl::UnavailableError(line);
  if (absl::ConsumePrefix(&line, kRefused)) {
    return absl::PermissionDeniedError(line);
  }
  return absl::InvalidArgumentError(
      "what answers there is no ferryd that takes workers");
}

}  // namespace ferry
