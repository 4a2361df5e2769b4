#include "platform/os/crash_report.h"

#include <signal.h>

#include "absl/debugging/failure_signal_handler.h"
#include "absl/debugging/symbolize.h"

namespace ferry {

void report_crashes(const char* program) {
  absl::InitializeSymbolizer(program);
  absl::InstallFailureSignalHandler({});
  // Abseil counts it among them.
  signal(SIGTERM, SIG_DFL);
}

}  // namespace ferry
