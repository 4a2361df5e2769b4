#include <grpcpp/client_context.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "server/frontend/call_log.h"
#include "server/frontend/health_board.h"
#include "server/frontend/health_reporter.h"
#include "server/frontend/health_service.h"
#include "server/frontend/stream_limiter.h"
#include "server/frontend/testing/test_frontend.h"

namespace ferry {
namespace {

using grpc::health::v1::Health;
using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;

v1::Pipeline pipeline(const std::string& name, v1::Pipeline::State state) {
  v1::Pipeline result;
  result.set_name(name);
  result.set_state(state);
  return result;
}

class HealthReporterTest : public ::testing::Test {
 protected:
  void report(const std::string& name, v1::Pipeline::State state) {
    reporter_.on_pipeline(pipeline(name, state));
  }
  bool serves(const std::string& service) const {
    return board_.find(service).value();
  }

  HealthBoard board_;
  HealthReporter reporter_{{"pipelines/a", "pipelines/b"}, &board_};
};

TEST_F(HealthReporterTest, ServesOnceEveryFirstLoadHasEnded) {
  EXPECT_TRUE(serves("liveness"));
  EXPECT_FALSE(serves("startup"));
  reporter_.set_listening();
  EXPECT_TRUE(serves("startup"));
  EXPECT_FALSE(serves("readiness"));
  report("pipelines/a", v1::Pipeline::STATE_READY);
  EXPECT_TRUE(serves("pipelines/a"));
  EXPECT_FALSE(serves("readiness")) << "b still loads";
  // Its worker died while loading, and it loads again.
  report("pipelines/b", v1::Pipeline::STATE_RESTARTING);
  EXPECT_FALSE(serves("readiness"));
  report("pipelines/b", v1::Pipeline::STATE_FAILED);
  for (const char* service : {"readiness", "", "ferry.v1.GenerationService"}) {
    EXPECT_TRUE(serves(service)) << service;
  }
  EXPECT_FALSE(serves("pipelines/b"));
}

TEST_F(HealthReporterTest, TurnsRedWithTheLastPipelineAndGreenAgain) {
  reporter_.set_listening();
  report("pipelines/a", v1::Pipeline::STATE_READY);
  report("pipelines/b", v1::Pipeline::STATE_READY);
  report("pipelines/a", v1::Pipeline::STATE_RESTARTING);
  EXPECT_TRUE(serves("readiness"));
  report("pipelines/b", v1::Pipeline::STATE_RESTARTING);
  EXPECT_FALSE(serves("readiness"));
  EXPECT_TRUE(serves("liveness")) << "never depends on workers";
  report("pipelines/a", v1::Pipeline::STATE_READY);
  EXPECT_TRUE(serves("readiness"));
}

TEST_F(HealthReporterTest, DrainingIsFinal) {
  reporter_.set_listening();
  report("pipelines/a", v1::Pipeline::STATE_READY);
  report("pipelines/b", v1::Pipeline::STATE_READY);
  reporter_.set_draining();
  EXPECT_FALSE(serves("readiness"));
  EXPECT_FALSE(serves("pipelines/a"));
  report("pipelines/a", v1::Pipeline::STATE_READY);
  EXPECT_FALSE(serves("readiness"));
  EXPECT_TRUE(serves("liveness"));
}

// The service over a real server.
class HealthServiceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(),
                             &port);
    builder.RegisterService(&service_);
    server_ = builder.BuildAndStart();
    stub_ = Health::NewStub(connect_to("127.0.0.1:" + std::to_string(port)));
  }

  void TearDown() override {
    board_.close();
    server_->Shutdown();
  }

  grpc::Status check(const std::string& service,
                     HealthCheckResponse* response) {
    grpc::ClientContext context;
    HealthCheckRequest request;
    request.set_service(service);
    return stub_->Check(&context, request, response);
  }

  struct Watcher {
    Watcher(Health::Stub& stub, const std::string& service) {
      HealthCheckRequest request;
      request.set_service(service);
      reader = stub.Watch(&context, request);
    }
    // The next status, or UNKNOWN at the end.
    HealthCheckResponse::ServingStatus next() {
      HealthCheckResponse response;
      return reader->Read(&response) ? response.status()
                                     : HealthCheckResponse::UNKNOWN;
    }
    grpc::ClientContext context;
    std::unique_ptr<grpc::ClientReader<HealthCheckResponse>> reader;
  };

  HealthBoard board_;
  CallLog calls_{Clock::real()};
  StreamLimiter watchers_{2};
  HealthService service_{board_, &calls_, &watchers_};
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<Health::Stub> stub_;
};

TEST_F(HealthServiceTest, ChecksKnownAndUnknownServices) {
  board_.set({{"readiness", true}});
  board_.set({{"pipelines/a", false}});
  HealthCheckResponse response;
  EXPECT_TRUE(check("readiness", &response).ok());
  EXPECT_EQ(response.status(), HealthCheckResponse::SERVING);
  EXPECT_TRUE(check("pipelines/a", &response).ok());
  EXPECT_EQ(response.status(), HealthCheckResponse::NOT_SERVING);
  EXPECT_EQ(check("nope", &response).error_code(), grpc::StatusCode::NOT_FOUND);
}

TEST_F(HealthServiceTest, WatchTellsEveryChange) {
  board_.set({{"readiness", false}});
  Watcher watcher(*stub_, "readiness");
  EXPECT_EQ(watcher.next(), HealthCheckResponse::NOT_SERVING);
  board_.set({{"readiness", true}});
  EXPECT_EQ(watcher.next(), HealthCheckResponse::SERVING);
  board_.set({{"readiness", false}});
  EXPECT_EQ(watcher.next(), HealthCheckResponse::NOT_SERVING);
}

TEST_F(HealthServiceTest, WatchOfAnUnknownServiceGoesOn) {
  Watcher watcher(*stub_, "pipelines/later");
  EXPECT_EQ(watcher.next(), HealthCheckResponse::SERVICE_UNKNOWN);
  board_.set({{"pipelines/later", true}});
  EXPECT_EQ(watcher.next(), HealthCheckResponse::SERVING);
}

TEST_F(HealthServiceTest, ClosingTellsTheLastChangeAndEndsWatchers) {
  board_.set({{"readiness", true}});
  Watcher watcher(*stub_, "readiness");
  EXPECT_EQ(watcher.next(), HealthCheckResponse::SERVING);
  board_.set({{"readiness", false}});
  board_.close();
  EXPECT_EQ(watcher.next(), HealthCheckResponse::NOT_SERVING);
  EXPECT_EQ(watcher.next(), HealthCheckResponse::UNKNOWN);
  EXPECT_EQ(watcher.reader->Finish().error_code(),
            grpc::StatusCode::UNAVAILABLE);
  HealthCheckResponse response;
  EXPECT_TRUE(check("readiness", &response).ok()) << "probes go on";
}

TEST_F(HealthServiceTest, WatchersAreBounded) {
  board_.set({{"readiness", true}});
  Watcher first(*stub_, "readiness");
  Watcher second(*stub_, "readiness");
  EXPECT_EQ(first.next(), HealthCheckResponse::SERVING);
  EXPECT_EQ(second.next(), HealthCheckResponse::SERVING);
  Watcher third(*stub_, "readiness");
  EXPECT_EQ(third.next(), HealthCheckResponse::UNKNOWN);
  const grpc::Status status = third.reader->Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(reason_of(status), "TOO_MANY_STREAMS");
  HealthCheckResponse response;
  EXPECT_TRUE(check("readiness", &response).ok());
}

}  // namespace
}  // namespace ferry
