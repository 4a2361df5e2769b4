#include "tests/benchmarks/cancel_latency.h"

#include <algorithm>
#include <iostream>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "tests/benchmarks/measurement.h"
#include "tests/support/daemon.h"
#include "tests/support/error_details.h"
#include "tests/support/eventually.h"
#include "tests/support/generate_call.h"
#include "tests/support/job_calls.h"
#include "tests/support/packages.h"

namespace ferry {
namespace {

constexpr int kCancels = 10;
constexpr int kStepMilliseconds = 200;
constexpr int kMeasuredSteps = 3;

// Cancels when `phase` of a step, 0 to 1, has passed; returns how many steps
// it took.
double cancel_in_step(Daemon& daemon, double phase) {
  v1::GenerateRequest request = make_request();
  request.mutable_spec()->set_num_inference_steps(50);
  GenerateCall call(daemon.generation(), request);
  require(call.wait_for_step(1), "no first step");
  const absl::Time first = absl::Now();
  require(call.wait_for_step(1 + kMeasuredSteps), "no further steps");
  const absl::Time last = absl::Now();
  const absl::Duration step = (last - first) / kMeasuredSteps;
  eventually([&] { return absl::Now() >= last + phase * step; });

  const absl::Time cancel = absl::Now();
  const auto answer = cancel_job(daemon.generation(), call.job().name());
  require(answer.status.ok(),
          absl::StrCat("CancelJob: ", describe(answer.status)));
  const grpc::Status& status = call.finish();
  const double steps = absl::FDivDuration(absl::Now() - cancel, step);
  require(status.error_code() == grpc::StatusCode::CANCELLED,
          absl::StrCat("Generate: ", describe(status)));
  std::cerr << absl::StrFormat(
      "cancelled %.2f into a step of %.0f ms: %.3f steps\n",
      absl::FDivDuration(cancel - last, step), absl::ToDoubleMilliseconds(step),
      steps);
  return steps;
}

}  // namespace

void measure_cancel_latency() {
  Daemon::Options options;
  options.pipelines = {
      {"bench", make_package({absl::StrCat("--step_ms=", kStepMilliseconds)})}};
  Daemon daemon(options);
  require(daemon.wait_until_ready(),
          absl::StrCat("ferryd does not get ready: ", daemon.log()));
  std::vector<double> steps;
  steps.reserve(kCancels);
  for (int i = 0; i < kCancels; ++i) {
    steps.push_back(cancel_in_step(daemon, (i + 0.5) / kCancels));
  }
  report(
      "cancel_latency_steps", median(steps), "steps",
      absl::StrFormat("median of %d cancels spread over a step, the longest "
                      "%.2f; at most 1",
                      kCancels, *std::max_element(steps.begin(), steps.end())));
}

}  // namespace ferry
