#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gtest/gtest.h"
#include "tests/support/child_process.h"
#include "tests/support/daemon_fixture.h"
#include "tests/support/error_details.h"
#include "tests/support/eventually.h"
#include "tests/support/files.h"
#include "tests/support/generate_call.h"
#include "tests/support/packages.h"

namespace ferry {

// A test of a group whose last ranks are external: a pipeline `slow`, of which
// the ranks hold one copy of the weights together.
class ExternalRanksFixture : public DaemonFixture {
 protected:
  using Workers = std::vector<std::unique_ptr<ChildProcess>>;

  static constexpr char kPipeline[] = "pipelines/slow";

  ExternalRanksFixture()
      : token_file_(absl::StrCat(make_directory("token"), "/token")) {
    write_file(token_file_, "0123456789abcdef0123456789abcdef\n");
  }

  // Where the hosts are, in numbers: ferryd's, and that of an external rank.
  virtual std::string ferryd_host() const = 0;
  virtual std::string host_of(int rank) const = 0;
  // The command line that runs a program there.
  virtual std::vector<std::string> on_host_of(
      int /*rank*/, std::vector<std::string> arguments) const {
    return arguments;
  }

  // A daemon of so many ranks. It listens, and waits for the last ones.
  Daemon& start_daemon(int ranks, int external_ranks,
                       const std::vector<std::string>& more_flags = {}) {
    const std::string config = make_directory("config") + "/ferryd.txtpb";
    write_file(
        config,
        absl::StrCat("pipelines { name: \"slow\" path: \"", slow_package(),
                     "\" ranks: ", ranks, " external_ranks: ", external_ranks,
                     " offload { mode: \"layer\" components: \"dit\" "
                     "layer_options { component: \"dit\" "
                     "weight_transfer: \"allgather\" } } }"));
    std::vector<std::string> flags = {
        "--config=" + config,
        "--platform=simulated",
        "--simulated_check",
        "--heartbeat_interval=100ms",
        absl::StrCat("--worker_address=", ferryd_host(), ":0"),
        "--worker_token_file=" + token_file_};
    flags.insert(flags.end(), more_flags.begin(), more_flags.end());
    Daemon& daemon = start({{}, flags});
    EXPECT_TRUE(daemon.wait_until_listening()) << daemon.log();
    return daemon;
  }

  // Rank and world size are told by the environment.
  std::unique_ptr<ChildProcess> start_worker(
      const Daemon& daemon, int rank, int ranks,
      const std::string& token_file) const {
    ChildProcess::Options options;
    options.arguments =
        on_host_of(rank, {product_program("server/worker/ferry_worker"),
                          "--rendezvous=" + daemon.worker_address(),
                          "--pipeline=slow", "--bind_address=" + host_of(rank),
                          "--worker_token_file=" + token_file});
    options.environment = {absl::StrCat("LWS_WORKER_INDEX=", rank),
                           absl::StrCat("LWS_GROUP_SIZE=", ranks)};
    return std::make_unique<ChildProcess>(options);
  }

  Workers start_workers(const Daemon& daemon, int first, int ranks) const {
    Workers workers;
    for (int rank = first; rank < ranks; ++rank) {
      workers.push_back(start_worker(daemon, rank, ranks, token_file_));
    }
    return workers;
  }

  // Blocks until that many have come in, all generations together, and then
  // until the group is ready: programs start one after the other here, and each
  // takes its time.
  static bool wait_until_ready(Daemon& daemon, size_t external_ranks) {
    const bool came = eventually([&] {
      const std::vector<std::string> parts =
          absl::StrSplit(daemon.log(), "a worker has come in");
      return parts.size() > external_ranks;
    });
    return came && daemon.wait_until_ready();
  }

  // Requests that run until something ends them, each on a rank.
  static std::vector<std::unique_ptr<GenerateCall>> run_endless(Daemon& daemon,
                                                                int count) {
    v1::GenerateRequest request = make_request();
    request.mutable_spec()->set_num_inference_steps(200);
    std::vector<std::unique_ptr<GenerateCall>> calls;
    for (int i = 0; i < count; ++i) {
      calls.push_back(
          std::make_unique<GenerateCall>(daemon.generation(), request));
    }
    for (const auto& call : calls) EXPECT_TRUE(call->wait_for_step(1));
    return calls;
  }

  static void expect_worker_lost(GenerateCall& call) {
    EXPECT_EQ(call.finish().error_code(), grpc::StatusCode::UNAVAILABLE)
        << describe(call.finish());
    EXPECT_EQ(parse_details(call.finish()).reason, "WORKER_LOST");
  }

  // Pictures of the seeds 1 to `count`, asked for at once.
  static std::vector<std::string> pictures(Daemon& daemon, int count) {
    std::vector<std::unique_ptr<GenerateCall>> calls;
    for (int seed = 1; seed <= count; ++seed) {
      calls.push_back(std::make_unique<GenerateCall>(daemon.generation(),
                                                     make_request(seed)));
    }
    std::vector<std::string> result;
    for (const auto& call : calls) {
      EXPECT_TRUE(call->finish().ok()) << describe(call->finish());
      result.push_back(call->outputs().empty() ? "" : call->outputs().at(0));
    }
    return result;
  }

  static std::vector<std::string> pictures_of_one_rank(int count) {
    Daemon daemon({{{"slow", slow_package()}}, {"--platform=cpu"}});
    EXPECT_TRUE(daemon.wait_until_ready()) << daemon.log();
    std::vector<std::string> result = pictures(daemon, count);
    expect_closes(daemon);
    return result;
  }

  const std::string token_file_;
};

}  // namespace ferry
