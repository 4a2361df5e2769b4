#include "pipelines/torchscript/operators/operator_facts.h"

#include <algorithm>
#include <map>
#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace ferry {
namespace {

constexpr absl::string_view kLines =
#include "pipelines/torchscript/operators/operator_facts.inc"
    ;

// By key. nullopt: the operator is there, and nothing is known of it.
using Table = std::map<std::string, std::optional<OperatorFacts>, std::less<>>;

std::optional<OperatorFacts> parse_facts(
    const std::vector<absl::string_view>& words) {
  std::vector<std::string> returned;
  std::vector<std::string> written;
  for (size_t i = 1; i < words.size(); ++i) {
    absl::string_view names = words[i];
    if (absl::StartsWith(names, "unknown:")) return std::nullopt;
    std::vector<std::string>* const into =
        absl::ConsumePrefix(&names, "returns=") ? &returned : &written;
    absl::ConsumePrefix(&names, "writes=");
    *into = absl::StrSplit(names, ',');
  }
  return OperatorFacts(std::move(returned), std::move(written));
}

const Table& table() {
  static const auto* const kTable = [] {
    auto* const table = new Table();
    for (const absl::string_view line : absl::StrSplit(kLines, '\n')) {
      const std::vector<absl::string_view> words =
          absl::StrSplit(line, ' ', absl::SkipEmpty());
      if (words.empty() || words[0] == "#") continue;
      table->emplace(words[0], parse_facts(words));
    }
    return table;
  }();
  return *kTable;
}

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

bool OperatorFacts::may_return(const c10::Argument& argument) const {
  return contains(returned_, argument.name());
}

bool OperatorFacts::may_write(const c10::Argument& argument) const {
  return contains(written_, argument.name());
}

std::string operator_key(const c10::FunctionSchema& schema) {
  return schema.overload_name().empty()
             ? schema.name()
             : absl::StrCat(schema.name(), ".", schema.overload_name());
}

const OperatorFacts* find_operator_facts(const c10::FunctionSchema& schema) {
  const auto found = table().find(operator_key(schema));
  return found != table().end() && found->second ? &*found->second : nullptr;
}

std::vector<std::string> operators_of_the_table() {
  std::vector<std::string> keys;
  for (const auto& [key, facts] : table()) keys.push_back(key);
  return keys;
}

}  // namespace ferry
