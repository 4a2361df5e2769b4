#pragma once

#include <functional>

#include "absl/status/statusor.h"
#include "client/command_context.h"
#include "client/generate_command.h"
#include "platform/base/command_line.h"

namespace ferry {

// What a command line asks ferryctl to do.
struct Command {
  // The command; returns the exit code. Empty for a generation.
  std::function<int(const CommandContext& context)> run;
  // Only of a generation, which also takes interrupts.
  GenerateOptions generate;
};

// Finds the command and checks its arguments. INVALID_ARGUMENT says what would
// be right.
absl::StatusOr<Command> find_command(const CommandLine& line);

// How ferryctl is used, without the flags.
const char* commands_help();

}  // namespace ferry
