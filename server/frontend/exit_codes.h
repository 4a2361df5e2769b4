#pragma once

namespace ferry {

// How ferryd ends; deploy scripts and tests depend on the numbers.
enum ExitCode : int {
  // Everything that ran has finished.
  kDrained = 0,
  // Flags or configuration file.
  kBadConfiguration = 1,
  // A port is taken, or a pipeline cannot be loaded (--exit_on_load_error).
  kCannotStart = 2,
  // Work was lost: the drain's deadline, a second signal, or the end itself
  // took too long.
  kWorkLost = 3,
  // The workers of a pipeline died too often.
  kWorkersUnrecoverable = 4,
};

}  // namespace ferry
