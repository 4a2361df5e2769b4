#include "tests/benchmarks/stream_rate.h"

#include <grpcpp/client_context.h>
#include <malloc.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "tests/benchmarks/bare_server.h"
#include "tests/benchmarks/measurement.h"
#include "tests/support/daemon.h"
#include "tests/support/error_details.h"
#include "tests/support/eventually.h"
#include "tests/support/files.h"
#include "tests/support/generate_call.h"
#include "tests/support/job_calls.h"
#include "tests/support/packages.h"

namespace ferry {
namespace {

// Each with processes and connections of its own: what they happen to be like
// stays for their lives.
constexpr int kRounds = 15;
constexpr int kPairs = 2;
constexpr int kEdge = 2048;
constexpr int kImages = 8;
constexpr int64_t kOutputBytes = int64_t{kImages} * kEdge * kEdge * 3;
// Not timed: what has arrived, or is about to, before anybody reads.
constexpr int64_t kLeadBytes = int64_t{16} << 20;

// More than this process ever holds at a time of one stream.
constexpr int kKeptBytes = 32 << 20;

// A pipeline that makes large pictures, quickly.
std::string package() {
  std::string directory = copy_package(make_package());
  const std::string manifest = directory + "/ferry.txtpb";
  write_file(
      manifest,
      absl::StrReplaceAll(
          read_file(manifest).value_or(""),
          {{"max_edge: 128", absl::StrCat("max_edge: ", kEdge)},
           {"max_pixels: 16384", absl::StrCat("max_pixels: ", kEdge * kEdge)},
           {"max_images: 4", absl::StrCat("max_images: ", kImages)}}));
  return directory;
}

// Of what comes between the lead and the last byte. `wait` is called once the
// first event has come, and no further one is read before it returns.
double mib_per_second(v1::GenerationService::Stub& stub,
                      const v1::GenerateRequest& request,
                      const std::function<void(const v1::Job&)>& wait) {
  grpc::ClientContext context;
  const auto reader = stub.Generate(&context, request);
  v1::GenerateResponse response;
  require(reader->Read(&response), "Generate: no event");
  wait(response.event().job());
  int64_t bytes = 0;
  int64_t lead = 0;
  absl::Time start;
  absl::Time end;
  do {
    const std::string& data = response.event().output_chunk().data();
    if (data.empty()) continue;
    bytes += static_cast<int64_t>(data.size());
    end = absl::Now();
    if (lead > 0 || bytes < kLeadBytes) continue;
    lead = bytes;
    start = end;
  } while (reader->Read(&response));
  const double seconds = absl::ToDoubleSeconds(end - start);
  const grpc::Status status = reader->Finish();
  require(status.ok(), absl::StrCat("Generate: ", describe(status)));
  require(bytes >= kOutputBytes, "Generate: too few bytes");
  return static_cast<double>(bytes - lead) / (1 << 20) / seconds;
}

// Some pairs with a daemon and a bare server of their own.
std::vector<Pair> measure_round(const std::string& package) {
  Daemon::Options options;
  options.pipelines = {{"bench", package}};
  Daemon daemon(options);
  require(daemon.wait_until_ready(),
          absl::StrCat("ferryd does not get ready: ", daemon.log()));
  v1::GenerateRequest request = make_request();
  v1::GenerationSpec& spec = *request.mutable_spec();
  spec.set_height(kEdge);
  spec.set_width(kEdge);
  spec.set_num_images(kImages);
  spec.set_num_inference_steps(1);
  spec.mutable_output()->set_format(v1::OutputSpec::FORMAT_RAW_RGB8);
  const auto until_finished = [&](const v1::Job& job) {
    require(eventually(
                [&] {
                  return get_job(daemon.generation(), job.name())
                             .response.job()
                             .state() == v1::Job::STATE_SUCCEEDED;
                },
                absl::Minutes(2)),
            "the generation does not end");
  };
  BareServer bare;
  v1::GenerateRequest bare_request;
  bare_request.mutable_spec()->set_num_images(
      static_cast<int>(kOutputBytes / kBarePieceBytes) + 1);
  return measure_pairs(
      kPairs,
      [&] {
        return mib_per_second(daemon.generation(), request, until_finished);
      },
      [&] { return mib_per_second(bare.stub(), bare_request, [](auto&) {}); });
}

}  // namespace

void measure_stream_rate() {
  // This process keeps what it frees: else it would measure, now and then, how
  // it gets new pages for what it reads.
  mallopt(M_MMAP_THRESHOLD, kKeptBytes);
  mallopt(M_TRIM_THRESHOLD, kKeptBytes);
  const std::string directory = package();
  std::vector<Pair> pairs;
  for (int round = 0; round < kRounds; ++round) {
    const std::vector<Pair> some = measure_round(directory);
    pairs.insert(pairs.end(), some.begin(), some.end());
  }
  // What two of them get of the cores changes from run to run, by more than
  // they differ.
  report("stream_mib_per_s_ratio", ratio_of_medians(pairs), "ratio",
         absl::StrCat("bare gRPC stream of 1 MiB messages, ",
                      kOutputBytes >> 20, " MiB, medians of ", kRounds * kPairs,
                      " alternating runs of each with ", kRounds,
                      " servers each; at least 0.8"));
}

}  // namespace ferry
