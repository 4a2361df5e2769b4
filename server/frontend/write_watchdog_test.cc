#include "server/frontend/write_watchdog.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "absl/time/time.h"
#include "ferry/v1/pipeline_service.grpc.pb.h"
#include "platform/base/clock.h"

namespace ferry {
namespace {

constexpr absl::Duration kTimeout = absl::Milliseconds(200);

using Handler = std::function<void(grpc::ServerContext* context)>;

// Calls whose handler is the test's.
class Service final : public v1::PipelineService::Service {
 public:
  explicit Service(Handler handler) : handler_(std::move(handler)) {}
  grpc::Status GetPipeline(grpc::ServerContext* context,
                           const v1::GetPipelineRequest* /*request*/,
                           v1::GetPipelineResponse* /*response*/) override {
    handler_(context);
    return grpc::Status::OK;
  }

 private:
  const Handler handler_;
};

class WriteWatchdogTest : public ::testing::Test {
 protected:
  // How a call ends that does so.
  static grpc::StatusCode call(Handler handler) {
    Service service(std::move(handler));
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(),
                             &port);
    builder.RegisterService(&service);
    const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
    const auto stub = v1::PipelineService::NewStub(
        grpc::CreateChannel("127.0.0.1:" + std::to_string(port),
                            grpc::InsecureChannelCredentials()));
    grpc::ClientContext context;
    v1::GetPipelineResponse response;
    return stub->GetPipeline(&context, {}, &response).error_code();
  }

  // Until the watchdog ends the call, or for twenty seconds.
  static void write_for_ever(const grpc::ServerContext& context) {
    const Clock& clock = Clock::real();
    const absl::Duration deadline = clock.monotonic() + absl::Seconds(20);
    while (!context.IsCancelled() && clock.monotonic() < deadline) {
      std::this_thread::yield();
    }
  }

  // Of a call with so many short writes, and one that lasts.
  void expect_end(int short_writes) {
    bool has_expired = false;
    EXPECT_EQ(call([&](grpc::ServerContext* context) {
                for (int i = 0; i < short_writes; ++i) {
                  const WriteWatchdog::Guard guard(&watchdog_, context);
                }
                const WriteWatchdog::Guard guard(&watchdog_, context);
                write_for_ever(*context);
                has_expired = guard.expired();
              }),
              grpc::StatusCode::CANCELLED);
    EXPECT_TRUE(has_expired);
  }

  WriteWatchdog watchdog_{kTimeout, Clock::real()};
};

TEST_F(WriteWatchdogTest, EndsTheCallOfAWriteThatLastsTooLong) {
  // Its thread waits for a write, for a deadline, and for a write again.
  for (int i = 0; i < 3; ++i) expect_end(/*short_writes=*/0);
}

TEST_F(WriteWatchdogTest, AlsoOfOneThatBeginsWhenTheLastOneHasEnded) {
  expect_end(/*short_writes=*/100);
}

TEST_F(WriteWatchdogTest, LeavesACallAloneWhoseWritesAreShort) {
  EXPECT_EQ(call([&](grpc::ServerContext* context) {
              const Clock& clock = Clock::real();
              const absl::Duration end = clock.monotonic() + 2 * kTimeout;
              while (clock.monotonic() < end) {
                const WriteWatchdog::Guard guard(&watchdog_, context);
              }
              EXPECT_FALSE(context->IsCancelled());
            }),
            grpc::StatusCode::OK);
}

}  // namespace
}  // namespace ferry
