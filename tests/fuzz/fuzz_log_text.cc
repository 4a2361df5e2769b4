#include <string>

#include "nlohmann/json.hpp"
#include "platform/base/log_escape.h"
#include "platform/base/utf8.h"
#include "server/core/rpc_status.h"
#include "tests/fuzz/fuzz_targets.h"

namespace ferry {

// Texts of clients and workers on their way into logs and errors.
void fuzz_log_text(absl::string_view input) {
  std::string json;
  append_json_string(input, &json);
  const auto parsed = nlohmann::json::parse(json, nullptr, false);
  require(parsed.is_string(), "a JSON string is one");
  require(!is_utf8(input) || parsed.get<std::string>() == input,
          "a JSON string holds the text");
  std::string text;
  append_log_text(input, &text);
  append_log_value(input, &text);
  for (const std::string& line : {json, text}) {
    require(is_utf8(line), "a line is UTF-8");
    require(line.find_first_of("\n\r\x1B\0", 0, 4) == std::string::npos,
            "a line is one line");
  }
  for (const size_t limit : {size_t{3}, size_t{10}, size_t{1024}}) {
    const std::string clean = clean_text(input, limit);
    require(is_utf8(clean) && clean.size() <= limit,
            "a clean text is UTF-8 of bounded size");
    require(clean_text(clean, limit) == clean, "a clean text stays as it is");
  }
}

}  // namespace ferry
