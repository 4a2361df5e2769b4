#pragma once

#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace ferry {

// What a command line says, once the values are in the Abseil flags.
struct CommandLine {
  // What is no flag, in order; without the program's name.
  std::vector<std::string> positional;
  // Names of the flags that were given.
  std::set<std::string> given;
  // --help was given; nothing else was looked at.
  bool help = false;
  // --version was given; nothing else was looked at.
  bool version = false;

  bool has(const std::string& flag) const { return given.count(flag) > 0; }
};

// Parses the arguments into the Abseil flags that `flags_file` (a __FILE__)
// defines, more strictly than absl::ParseCommandLine and without ending the
// process: a flag given twice is an error, an unknown one names the nearest.
// `--name=value`, `--name value`, `--bool`, `--nobool` and a single dash work;
// dashes within a name count as underscores; after `--` nothing is a flag.
// INVALID_ARGUMENT names the flag and what would be right.
absl::StatusOr<CommandLine> parse_command_line(int argc,
                                               const char* const argv[],
                                               absl::string_view flags_file);

// One paragraph for each flag of `flags_file`, by name, with its default.
std::string describe_flags(absl::string_view flags_file);

}  // namespace ferry
