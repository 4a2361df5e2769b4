#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "ferry/v1/generation_service.grpc.pb.h"
#include "ferry/v1/pipeline_service.grpc.pb.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "grpcpp/channel.h"
#include "platform/base/check.h"
#include "tests/support/child_process.h"
#include "tests/support/eventually.h"

namespace ferry {

// The real ferryd with its real workers, as a child of the test.
//
// Created → listens → ready → stops; it may end in any of these. It runs in an
// empty directory of its own, with another one as TMPDIR, so that a file that
// it leaves behind shows.
//
// Ownership: the destructor kills it; see closing_check.h for how a test
//   should end.
// Threads: not thread-safe; the stubs are.
class Daemon {
 public:
  struct Options {
    // Name and package of each pipeline.
    std::vector<std::pair<std::string, std::string>> pipelines;
    // Further flags.
    std::vector<std::string> flags;
    std::string grpc_address = "127.0.0.1:0";
    // NAME=VALUE, besides the test's own.
    std::vector<std::string> environment = {};
    // File that its log goes to, in place of the one that log() reads.
    std::string stderr_path = "";
  };

  explicit Daemon(const Options& options);
  Daemon(const Daemon&) = delete;
  Daemon& operator=(const Daemon&) = delete;

  // Blocks until it has written its addresses and opens the channel. Returns
  // false when it ended instead.
  bool wait_until_listening();
  // Blocks until readiness is SERVING; false when that does not happen.
  bool wait_until_ready();

  ChildProcess& process() { return process_; }
  // Address to dial. REQUIRES: listening.
  const std::string& address() const {
    FERRY_CHECK(!grpc_address_.empty());
    return grpc_address_;
  }
  const std::string& health_address() const { return health_address_; }
  // Where external workers connect; empty where there are none.
  const std::string& worker_address() const { return worker_address_; }
  // A connection that nobody else uses. REQUIRES: listening.
  std::shared_ptr<grpc::Channel> new_channel() const;

  // Stubs on one common connection. REQUIRES: listening.
  v1::GenerationService::Stub& generation() {
    FERRY_CHECK(generation_ != nullptr);
    return *generation_;
  }
  v1::PipelineService::Stub& pipeline_service() {
    FERRY_CHECK(pipeline_service_ != nullptr);
    return *pipeline_service_;
  }
  grpc::health::v1::Health::Stub& health() {
    FERRY_CHECK(health_ != nullptr);
    return *health_;
  }

  // Health of a service now; UNKNOWN when the call fails.
  grpc::health::v1::HealthCheckResponse::ServingStatus check_health(
      const std::string& service);
  // Watches until the service has this health.
  bool wait_for_health(
      const std::string& service,
      grpc::health::v1::HealthCheckResponse::ServingStatus status,
      absl::Duration timeout = kPatience);
  // The pipeline as the API tells it; an empty one when it is unknown.
  v1::Pipeline get_pipeline(const std::string& name);
  // Jobs that are queued or running.
  std::vector<v1::Job> unfinished_jobs();

  // Worker processes that live.
  std::vector<pid_t> worker_pids() const;
  // Blocks until there is a worker process other than `old_pid`; returns it,
  // or 0.
  pid_t wait_for_worker(pid_t old_pid = 0) const;

  // What it has logged.
  std::string log() const { return process_.read_stderr(); }
  // Files that it has left in its directories.
  std::vector<std::string> leftover_files() const;
  // Sockets it had when it became ready.
  int ready_sockets() const { return ready_sockets_; }

 private:
  ChildProcess::Options process_options(const Options& options) const;

  // Constant after construction.
  const std::string address_file_;
  const std::string working_directory_;
  const std::string temporary_directory_;

  ChildProcess process_;
  std::string grpc_address_;
  std::string health_address_;
  std::string worker_address_;
  int ready_sockets_ = 0;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::GenerationService::Stub> generation_;
  std::unique_ptr<v1::PipelineService::Stub> pipeline_service_;
  std::unique_ptr<grpc::health::v1::Health::Stub> health_;
};

}  // namespace ferry
