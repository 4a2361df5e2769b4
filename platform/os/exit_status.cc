#include "platform/os/exit_status.h"

#include <string.h>

#include "absl/strings/str_cat.h"

namespace ferry {

std::string ExitStatus::to_string() const {
  if (signal_ == 0) return absl::StrCat("exited with code ", code_);
  const char* const name = sigabbrev_np(signal_);
  return absl::StrCat("killed by signal ", signal_, " (",
                      name == nullptr ? "" : "SIG",
                      name == nullptr ? "unknown" : name, ")");
}

}  // namespace ferry
