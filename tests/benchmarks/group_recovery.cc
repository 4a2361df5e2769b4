#include "tests/benchmarks/group_recovery.h"

#include <signal.h>

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "tests/benchmarks/measurement.h"
#include "tests/support/daemon.h"
#include "tests/support/error_details.h"
#include "tests/support/generate_call.h"

namespace ferry {
namespace {

using grpc::health::v1::HealthCheckResponse;

constexpr int kRanks = 4;

std::string picture(Daemon& daemon) {
  GenerateCall call(daemon.generation(), make_request());
  require(call.finish().ok(),
          absl::StrCat("Generate: ", describe(call.finish())));
  return call.outputs().at(0);
}

double seconds_to_recover(Daemon& daemon, int rank,
                          const std::string& expected) {
  const v1::Pipeline before = daemon.get_pipeline("pipelines/bench");
  require(before.ranks_size() == kRanks, "the group is not whole");
  const absl::Time lost = absl::Now();
  kill(static_cast<pid_t>(before.ranks(rank).pid()), SIGKILL);
  require(
      daemon.wait_for_health("readiness", HealthCheckResponse::NOT_SERVING) &&
          daemon.wait_for_health("readiness", HealthCheckResponse::SERVING),
      absl::StrCat("the group does not come back: ", daemon.log()));
  require(picture(daemon) == expected, "another picture");
  return absl::ToDoubleSeconds(absl::Now() - lost);
}

}  // namespace

void measure_group_recovery(const std::string& package) {
  Daemon::Options options;
  options.pipelines = {{"bench", package}};
  // Without pauses between the losses.
  options.flags = {absl::StrCat("--ranks=", kRanks),
                   "--worker_restart_backoff_max=1ms",
                   "--worker_restart_backoff_min=1ms"};
  Daemon daemon(options);
  require(daemon.wait_until_ready(),
          absl::StrCat("ferryd does not get ready: ", daemon.log()));
  const std::string expected = picture(daemon);
  std::vector<double> seconds;
  seconds.reserve(kRanks);
  for (int rank = 0; rank < kRanks; ++rank) {
    seconds.push_back(seconds_to_recover(daemon, rank, expected));
  }
  report("group_recovery_s", median(seconds), "s",
         absl::StrCat("SIGKILL of one of ", kRanks,
                      " ranks to the next picture, median over the ranks; at "
                      "most 6"));
}

}  // namespace ferry
