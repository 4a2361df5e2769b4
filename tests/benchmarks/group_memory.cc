#include "tests/benchmarks/group_memory.h"

#include <sys/types.h>

#include <cstdint>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tests/benchmarks/measurement.h"
#include "tests/support/daemon.h"
#include "tests/support/error_details.h"
#include "tests/support/files.h"
#include "tests/support/generate_call.h"
#include "tests/support/host_bytes.h"
#include "tests/support/packages.h"

namespace ferry {
namespace {

constexpr int kRanks = 4;
// 528 MB in all.
constexpr int kBlocks = 24;
constexpr int64_t kBlockBytes = 22'000'000;

struct Measured {
  // Of all ranks.
  HostBytes loaded;
  int64_t weight_bytes = 0;
};

// One request for each rank.
void generate(Daemon& daemon) {
  v1::GenerateRequest request = make_request();
  request.mutable_spec()->set_num_inference_steps(2);
  std::vector<std::unique_ptr<GenerateCall>> calls;
  for (int i = 0; i < kRanks; ++i) {
    calls.push_back(
        std::make_unique<GenerateCall>(daemon.generation(), request));
  }
  for (const auto& call : calls) {
    const grpc::Status& status = call->finish();
    require(status.ok(), absl::StrCat("Generate: ", describe(status)));
  }
}

Measured measure(const std::string& package) {
  const std::string config = make_directory("config") + "/server.txtpb";
  write_file(config,
             absl::StrCat("pipelines { name: \"bench\" path: \"", package,
                          "\" ranks: ", kRanks,
                          " offload { mode: \"layer\" components: \"dit\" "
                          "layer_options { component: \"dit\" "
                          "weight_transfer: \"allgather\" } } }\n"));
  Daemon::Options options;
  options.flags = {absl::StrCat("--config=", config), "--platform=simulated"};
  Daemon daemon(options);
  require(daemon.wait_until_ready(),
          absl::StrCat("ferryd does not get ready: ", daemon.log()));
  generate(daemon);
  const v1::Pipeline pipeline = daemon.get_pipeline("pipelines/bench");
  require(pipeline.ranks_size() == kRanks, "the group is not whole");
  require(pipeline.offload().strategy() == "distributed_layer_wise",
          "the ranks do not hold their weights together");
  Measured measured;
  for (const v1::Rank& rank : pipeline.ranks()) {
    measured.loaded += read_host_bytes(static_cast<pid_t>(rank.pid()), package);
  }
  measured.weight_bytes = weight_bytes(pipeline);
  return measured;
}

}  // namespace

void measure_group_memory() {
  const Measured small = measure(make_package({"--code_only"}));
  const Measured large =
      measure(make_package({"--code_only", absl::StrCat("--blocks=", kBlocks),
                            absl::StrCat("--ballast_bytes=", kBlockBytes)}));
  const auto weights =
      static_cast<double>(large.weight_bytes - small.weight_bytes);
  require(weights >= 500e6, "the model is too small");
  std::cerr << absl::StrFormat("%.1f MB of weights: %s; without them: %s\n",
                               weights / 1e6, describe(large.loaded),
                               describe(small.loaded));
  report(absl::StrCat("host_bytes_n", kRanks),
         static_cast<double>(large.loaded.sum() - small.loaded.sum()) / weights,
         "ratio",
         absl::StrCat("bytes of the weights, 528 MB, all ", kRanks,
                      " ranks; at most 1.10"));
}

}  // namespace ferry
