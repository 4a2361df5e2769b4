#include <signal.h>

#include <iostream>
#include <string>

#include "absl/flags/flag.h"
#include "absl/status/status.h"
#include "platform/base/clock.h"
#include "platform/base/command_line.h"
#include "platform/base/logging.h"
#include "platform/base/version.h"
#include "platform/os/crash_report.h"
#include "platform/os/signal_watcher.h"
#include "server/core/config_loader.h"
#include "server/core/daemon_config.h"
#include "server/frontend/end_requests.h"
#include "server/frontend/exit_codes.h"
#include "server/frontend/ferryd.h"
#include "server/frontend/flags.h"
#include "server/ipc/foreign_logs.h"

namespace ferry {
namespace {

int refuse(const absl::Status& status) {
  std::cerr << "ferryd: " << status.message() << std::endl;
  return kBadConfiguration;
}

// After everything that was to be printed.
int end_of_output() {
  std::cout.flush();
  if (std::cout.good()) return kDrained;
  return refuse(absl::DataLossError("cannot write to standard output"));
}

absl::Status start_log(const DaemonConfig& config) {
  LogOptions options;
  options.component = "ferryd";
  options.file = config.log_file;
  const auto level = parse_log_level(config.log_level);
  if (!level.ok()) return level.status();
  options.level = *level;
  const auto format = parse_log_format(config.log_format);
  if (!format.ok()) return format.status();
  options.format = *format;
  return init_logging(options);
}

int run(int argc, char* argv[]) {
  // Before every other thread, and before anything can take long.
  EndRequests end(Clock::real());
  const auto signals = SignalWatcher::create(
      {SIGTERM, SIGINT}, [&end](int signal) { end.on_signal(signal); });
  if (!signals.ok()) return refuse(signals.status());

  const auto line = parse_command_line(argc, argv, flags_file());
  if (!line.ok()) return refuse(line.status());
  if (line->help) {
    std::cout << usage() << describe_flags(flags_file());
    return end_of_output();
  }
  if (line->version) {
    std::cout << "ferryd " << kVersion << "\n";
    return end_of_output();
  }
  const auto config = configure(*line);
  if (!config.ok()) return refuse(config.status());
  if (absl::GetFlag(FLAGS_print_effective_config)) {
    std::cout << print_daemon_config(*config);
    return end_of_output();
  }
  if (absl::GetFlag(FLAGS_validate_config)) return kDrained;

  if (const absl::Status status = start_log(*config); !status.ok()) {
    return refuse(status);
  }
  route_foreign_logs();
  log_info("starting", {{"version", kVersion},
                        {"configuration", print_daemon_config(*config)}});
  return run_ferryd(*config, &end);
}

}  // namespace
}  // namespace ferry

int main(int argc, char* argv[]) {
  ferry::report_crashes(argv[0]);
  return ferry::run(argc, argv);
}
