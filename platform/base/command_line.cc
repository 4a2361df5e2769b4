#include "platform/base/command_line.h"

#include <algorithm>
#include <map>
#include <optional>

#include "absl/flags/commandlineflag.h"
#include "absl/flags/reflection.h"
#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "platform/base/status_macros.h"

namespace ferry {
namespace {

using FlagMap = std::map<std::string, absl::CommandLineFlag*>;

FlagMap flags_of(absl::string_view file) {
  FlagMap flags;
  for (const auto& [name, flag] : absl::GetAllFlags()) {
    if (flag->Filename() == file) flags.emplace(name, flag);
  }
  return flags;
}

// Levenshtein's distance.
size_t edit_distance(absl::string_view a, absl::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[b.size()];
}

size_t common_prefix(absl::string_view a, absl::string_view b) {
  const auto [end, unused] = std::mismatch(
      a.begin(), a.begin() + std::min(a.size(), b.size()), b.begin());
  return end - a.begin();
}

absl::Status unknown_flag(const FlagMap& flags, absl::string_view argument,
                          const std::string& name) {
  std::string message = absl::StrCat("unknown flag '", argument, "'");
  std::string nearest;
  // Farther away it is another word; --grpc_port still means --grpc_address.
  size_t best = std::max<size_t>(2, name.size() / 2) + 1;
  for (const auto& [candidate, flag] : flags) {
    const size_t prefix = common_prefix(name, candidate);
    const size_t distance = edit_distance(name, candidate);
    const size_t score = distance - std::min(distance, prefix);
    if (score < best) {
      best = score;
      nearest = candidate;
    }
  }
  absl::StrAppend(&message, nearest.empty() ? "; --help lists the flags"
                                            : absl::StrCat("; did you mean --",
                                                           nearest, "?"));
  return absl::InvalidArgumentError(message);
}

bool is_bool(const absl::CommandLineFlag* flag) {
  return flag->IsOfType<bool>();
}

// An argument that names a flag, taken apart.
struct FlagArgument {
  absl::CommandLineFlag* flag;
  std::string name;
  // Absent: it may be the next argument.
  std::optional<std::string> value;
};

absl::StatusOr<FlagArgument> split(const FlagMap& flags,
                                   absl::string_view argument) {
  absl::string_view text = argument;
  text.remove_prefix(absl::StartsWith(text, "--") ? 2 : 1);
  const size_t equals = text.find('=');
  FlagArgument result;
  if (equals != text.npos) result.value = std::string(text.substr(equals + 1));
  result.name = absl::StrReplaceAll(text.substr(0, equals), {{"-", "_"}});

  auto found = flags.find(result.name);
  if (found == flags.end() && absl::StartsWith(result.name, "no") &&
      !result.value.has_value()) {
    found = flags.find(result.name.substr(2));
    if (found != flags.end() && is_bool(found->second)) {
      result.value = "false";
    } else {
      found = flags.end();
    }
  }
  if (found == flags.end()) return unknown_flag(flags, argument, result.name);
  result.name = found->first;
  result.flag = found->second;
  if (is_bool(result.flag) && !result.value.has_value()) result.value = "true";
  return result;
}

}  // namespace

absl::StatusOr<CommandLine> parse_command_line(int argc,
                                               const char* const argv[],
                                               absl::string_view flags_file) {
  const FlagMap flags = flags_of(flags_file);
  CommandLine line;
  bool only_positional = false;
  for (int i = 1; i < argc; ++i) {
    const absl::string_view argument = argv[i];
    if (only_positional || argument.size() < 2 || argument[0] != '-') {
      line.positional.emplace_back(argument);
      continue;
    }
    if (argument == "--") {
      only_positional = true;
      continue;
    }
    if (argument == "--help" || argument == "-help" || argument == "-h") {
      line.help = true;
      return line;
    }
    if (argument == "--version" || argument == "-version") {
      line.version = true;
      return line;
    }
    ASSIGN_OR_RETURN(FlagArgument given, split(flags, argument));
    if (!line.given.insert(given.name).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("--", given.name, " is given twice"));
    }
    if (!given.value.has_value()) {
      if (i + 1 == argc) {
        return absl::InvalidArgumentError(
            absl::StrCat("--", given.name, " needs a value"));
      }
      given.value = argv[++i];
    }
    std::string error;
    if (!given.flag->ParseFrom(*given.value, &error)) {
      return absl::InvalidArgumentError(
          absl::StrCat("--", given.name, ": ", error));
    }
  }
  return line;
}

std::string describe_flags(absl::string_view flags_file) {
  std::string text;
  for (const auto& [name, flag] : flags_of(flags_file)) {
    const std::string value = flag->DefaultValue();
    absl::StrAppend(&text, "  --", name, "\n      ", flag->Help());
    if (!value.empty()) absl::StrAppend(&text, " Default: ", value, ".");
    absl::StrAppend(&text, "\n");
  }
  return text;
}

}  // namespace ferry
