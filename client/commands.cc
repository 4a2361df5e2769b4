#include "client/commands.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/flags.h"
#include "client/health_command.h"
#include "client/jobs_command.h"
#include "client/pipelines_command.h"
#include "platform/base/status_macros.h"

namespace ferry {
namespace {

absl::Status unknown_command(const CommandLine& line) {
  return absl::InvalidArgumentError(absl::StrCat(
      "no such command: '", absl::StrJoin(line.positional, " "),
      "'; there are: generate PROMPT -o FILE, health, jobs list, jobs get "
      "NAME, jobs cancel NAME, pipelines list, pipelines get NAME, pipelines "
      "flight-records NAME"));
}

}  // namespace

absl::StatusOr<Command> find_command(const CommandLine& line) {
  const std::vector<std::string>& words = line.positional;
  if (words.empty()) {
    return absl::InvalidArgumentError("no command; --help lists them");
  }
  Command command;
  if (words[0] == "generate") {
    if (words.size() != 2) {
      return absl::InvalidArgumentError(
          "generate: needs one prompt, in quotes");
    }
    ASSIGN_OR_RETURN(command.generate, generate_options(line, words[1]));
    return command;
  }

  const std::string verb =
      words.size() > 1 ? absl::StrCat(words[0], " ", words[1]) : words[0];
  RETURN_IF_ERROR(refuse_generate_flags(line, verb));
  const std::string name = words.size() == 3 ? words[2] : "";
  const auto with_name = [&](auto run) {
    command.run = [run, name](const CommandContext& context) {
      return run(context, name);
    };
  };
  if (verb == "health" && words.size() == 1) {
    command.run = run_health;
  } else if (verb == "jobs list" && words.size() == 2) {
    command.run = run_jobs_list;
  } else if (verb == "jobs get" && !name.empty()) {
    with_name(run_jobs_get);
  } else if (verb == "jobs cancel" && !name.empty()) {
    with_name(run_jobs_cancel);
  } else if (verb == "pipelines list" && words.size() == 2) {
    command.run = run_pipelines_list;
  } else if (verb == "pipelines get" && !name.empty()) {
    with_name(run_pipelines_get);
  } else if (verb == "pipelines flight-records" && !name.empty()) {
    with_name(run_pipelines_flight_records);
  } else {
    return unknown_command(line);
  }
  return command;
}

const char* commands_help() {
  return R"(ferryctl: talks to ferryd, the image generation daemon.

  ferryctl generate PROMPT -o FILE   makes a picture, in the format of FILE's
                                     suffix; Ctrl-C cancels the job
  ferryctl health                    exits with 0 exactly when it is ready
  ferryctl jobs list
  ferryctl jobs get NAME
  ferryctl jobs cancel NAME
  ferryctl pipelines list
  ferryctl pipelines get NAME
  ferryctl pipelines flight-records NAME
                                     what its ranks did together of late: where
                                     a group waits that stands still

Errors are printed as `CODE REASON: message`. Exit codes: 0 success, 1 wrong
usage, 2 a file cannot be written or is broken, 3 not ready, 64 + n an error
with gRPC's code n (78: no server there), 130 interrupted.

Flags:
)";
}

}  // namespace ferry
