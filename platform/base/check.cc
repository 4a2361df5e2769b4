#include "platform/base/check.h"

#include <unistd.h>

#include <cstdlib>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace ferry {

void check_failed(const char* file, int line, const char* expression,
                  const std::string& values) {
  const std::string text = absl::StrCat(
      file, ":", line, ": check failed: ", expression, values, "\n");
  // Not by the log, whose invariants may be the broken ones.
  (void)!::write(STDERR_FILENO, text.data(), text.size());
  std::abort();
}

std::string checked_text(absl::string_view text) {
  constexpr size_t kMostBytes = 200;
  return absl::StrCat("\"", absl::CHexEscape(text.substr(0, kMostBytes)), "\"");
}

}  // namespace ferry
