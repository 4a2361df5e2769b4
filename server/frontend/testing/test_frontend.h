#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/support/channel_arguments.h>

#include <memory>
#include <string>

#include "ferry/v1/pipeline.pb.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "grpcpp/support/status.h"
#include "platform/base/clock.h"
#include "server/core/daemon_config.h"
#include "server/core/generation_manager.h"
#include "server/core/pipeline_directory.h"
#include "server/core/testing/fake_rank.h"
#include "server/core/testing/test_pipeline.h"
#include "server/frontend/health_board.h"
#include "server/frontend/health_reporter.h"

namespace ferry {

inline constexpr char kTestPipeline[] = "pipelines/test";

// What ferryd has beside its servers: one pipeline that is ready, with one fake
// rank.
struct TestFrontend {
  TestFrontend() {
    config.grpc_address = "127.0.0.1:0";
    config.health_address = "127.0.0.1:0";
    directory.add(kTestPipeline);
    directory.add_listener([this](const v1::Pipeline& pipeline) {
      reporter.on_pipeline(pipeline);
    });
  }

  // As the supervisor does once the group is up.
  void make_ready() {
    directory.update(kTestPipeline, [](v1::Pipeline& pipeline) {
      pipeline = make_test_pipeline(kTestPipeline);
    });
    manager.add_rank(kTestPipeline, rank);
  }

  DaemonConfig config;
  const Clock& clock = Clock::real();
  PipelineDirectory directory;
  HealthBoard board;
  HealthReporter reporter{{kTestPipeline}, &board};
  GenerationManager manager{GenerationManager::Options(), directory, clock};
  std::shared_ptr<FakeRank> rank = std::make_shared<FakeRank>();
};

// A connection that no other channel shares.
inline std::shared_ptr<grpc::Channel> connect_to(const std::string& address) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(),
                                   arguments);
}

// A detail of an error, or the default when it has none.
template <typename Detail>
Detail detail_of(const grpc::Status& status) {
  google::rpc::Status details;
  details.ParseFromString(status.error_details());
  Detail detail;
  for (const auto& any : details.details()) {
    if (any.UnpackTo(&detail)) return detail;
  }
  return Detail();
}

inline std::string reason_of(const grpc::Status& status) {
  return detail_of<google::rpc::ErrorInfo>(status).reason();
}

}  // namespace ferry
