#include <string>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/strip.h"
#include "platform/base/utf8.h"
#include "server/ipc/worker_hello.h"
#include "tests/fuzz/fuzz_targets.h"

namespace ferry {

// What a worker says that dials ferryd, and what it is answered.
void fuzz_worker_hello(absl::string_view input) {
  const auto hello = parse_hello(input);
  if (hello.ok()) {
    const std::string line = format_hello(*hello);
    const auto again = parse_hello(absl::StripSuffix(line, "\n"));
    require(again.ok() && format_hello(*again) == line,
            "what is read can be said again");
  } else {
    require(absl::IsInvalidArgument(hello.status()), "INVALID_ARGUMENT");
    require(is_utf8(hello.status().message()), "the error is UTF-8");
    const std::string answer = format_answer(hello.status());
    require(
        absl::EndsWith(answer, "\n") && answer.find('\n') == answer.size() - 1,
        "the answer is one line");
  }
  const absl::Status answer = parse_answer(input);
  require(answer.ok() || absl::IsPermissionDenied(answer) ||
              absl::IsInvalidArgument(answer),
          "an answer is one, or is not");
}

}  // namespace ferry
