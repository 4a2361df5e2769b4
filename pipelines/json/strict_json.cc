#include "pipelines/json/strict_json.h"

#include <set>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "pipelines/json/git_lfs.h"
#include "pipelines/safetensors/problems.h"
#include "platform/base/utf8.h"

namespace ferry {
namespace {

using Event = nlohmann::json::parse_event_t;

// Sees what the parser comes across.
class Watcher {
 public:
  explicit Watcher(int depth) : depth_(depth) {}

  // What is refused is not kept: it takes no memory.
  bool on_event(int depth, Event event, const nlohmann::json& value) {
    if (event == Event::object_start || event == Event::array_start) {
      if (depth >= depth_) is_too_deep_ = true;
      if (depth == 1) inner_.clear();
      return depth < depth_;
    }
    if (event == Event::key && depth <= 2) {
      std::set<std::string>& known = depth == 1 ? outer_ : inner_;
      const auto& key = value.get_ref<const std::string&>();
      if (!known.insert(key).second) {
        problems_.add(absl::StrCat("has the key ", quote_name(key), " twice"));
      }
    }
    return true;
  }

  absl::Status status() const {
    if (is_too_deep_) {
      return absl::InvalidArgumentError(
          absl::StrCat("nests deeper than ", depth_, " levels"));
    }
    return problems_.status();
  }

 private:
  const int depth_;
  bool is_too_deep_ = false;
  // Keys of the object, and of the one in it that is being read.
  std::set<std::string> outer_;
  std::set<std::string> inner_;
  Problems problems_;
};

// What stands in place of a document, or before it.
absl::Status check_start(absl::string_view text) {
  if (is_git_lfs_pointer(text)) {
    return absl::InvalidArgumentError(kGitLfsDefect);
  }
  for (absl::string_view mark : {"\xEF\xBB\xBF", "\xFF\xFE", "\xFE\xFF"}) {
    if (!absl::StartsWith(text, mark)) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "begins with a byte order mark (BOM) of UTF-",
        mark.size() == 3 ? "8" : "16", "; save it as UTF-8 without one"));
  }
  if (!is_utf8(text)) return absl::InvalidArgumentError("is no UTF-8");
  // The parser would take it for the end, and see nothing of what follows.
  if (const size_t at = text.find('\0'); at != absl::string_view::npos) {
    return absl::InvalidArgumentError(
        absl::StrCat("is no JSON from byte ", at + 1, " on: it holds a NUL"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<nlohmann::json> parse_strict_json(absl::string_view text,
                                                 int depth) {
  if (absl::Status status = check_start(text); !status.ok()) return status;
  Watcher watcher(depth);
  nlohmann::json values;
  try {
    values = nlohmann::json::parse(
        text.begin(), text.end(),
        [&](int at, Event event, const nlohmann::json& value) {
          return watcher.on_event(at, event, value);
        });
  } catch (const nlohmann::json::parse_error& error) {
    return absl::InvalidArgumentError(
        absl::StrCat("is no JSON from byte ", error.byte, " on"));
  } catch (const nlohmann::json::out_of_range&) {
    return absl::InvalidArgumentError("holds a number without bounds");
  }
  if (absl::Status status = watcher.status(); !status.ok()) return status;
  if (!values.is_object()) {
    return absl::InvalidArgumentError("is no JSON object");
  }
  return values;
}

}  // namespace ferry
