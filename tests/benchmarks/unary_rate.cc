#include "tests/benchmarks/unary_rate.h"

#include <grpcpp/client_context.h>

#include <atomic>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "tests/benchmarks/bare_server.h"
#include "tests/benchmarks/measurement.h"
#include "tests/support/daemon.h"
#include "tests/support/error_details.h"
#include "tests/support/generate_call.h"

namespace ferry {
namespace {

constexpr int kPairs = 9;
constexpr int kCallers = 4;
constexpr absl::Duration kTime = absl::Seconds(1);

// Of callers that each wait for an answer before the next call.
double calls_per_second(v1::GenerationService::Stub& stub,
                        const std::string& job) {
  std::atomic<int64_t> calls{0};
  std::atomic<bool> failed{false};
  const absl::Time start = absl::Now();
  std::vector<std::thread> callers;
  callers.reserve(kCallers);
  for (int i = 0; i < kCallers; ++i) {
    callers.emplace_back([&] {
      v1::GetJobRequest request;
      request.set_name(job);
      while (absl::Now() < start + kTime && !failed) {
        grpc::ClientContext context;
        v1::GetJobResponse response;
        const bool ok = stub.GetJob(&context, request, &response).ok();
        if (!ok || response.job().name() != job) failed = true;
        ++calls;
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  require(!failed, "GetJob failed");
  return static_cast<double>(calls) /
         absl::ToDoubleSeconds(absl::Now() - start);
}

}  // namespace

void measure_unary_rate(const std::string& package) {
  Daemon::Options options;
  options.pipelines = {{"bench", package}};
  Daemon daemon(options);
  require(daemon.wait_until_ready(),
          absl::StrCat("ferryd does not get ready: ", daemon.log()));
  v1::GenerateRequest request;
  request.mutable_spec()->set_prompt("a large red circle");
  GenerateCall call(daemon.generation(), request);
  require(call.finish().ok(),
          absl::StrCat("Generate: ", describe(call.finish())));
  const std::string job = call.job().name();
  BareServer bare;
  // Warm both up.
  calls_per_second(daemon.generation(), job);
  calls_per_second(bare.stub(), job);

  const double ratio = median_ratio(measure_pairs(
      kPairs, [&] { return calls_per_second(daemon.generation(), job); },
      [&] { return calls_per_second(bare.stub(), job); }));
  report("unary_rps_ratio", ratio, "ratio",
         absl::StrCat("GetJob on a bare gRPC server, ", kCallers,
                      " callers, median of ", kPairs,
                      " alternating pairs; at least 0.6"));
}

}  // namespace ferry
