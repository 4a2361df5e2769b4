#include "server/frontend/reflection_service.h"

#include <gmock/gmock.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>
#include <grpcpp/client_context.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>

#include "server/frontend/testing/test_frontend.h"

namespace ferry {
namespace {

using grpc::reflection::v1alpha::ServerReflection;
using grpc::reflection::v1alpha::ServerReflectionRequest;
using grpc::reflection::v1alpha::ServerReflectionResponse;
using ::testing::Contains;
using ::testing::ElementsAre;

class ReflectionServiceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(),
                             &port);
    builder.RegisterService(&service_);
    server_ = builder.BuildAndStart();
    stub_ = ServerReflection::NewStub(
        connect_to("127.0.0.1:" + std::to_string(port)));
    stream_ = stub_->ServerReflectionInfo(&context_);
  }

  void TearDown() override {
    stream_->WritesDone();
    EXPECT_TRUE(stream_->Finish().ok());
    server_->Shutdown();
  }

  ServerReflectionResponse ask(const ServerReflectionRequest& request) {
    ServerReflectionResponse response;
    EXPECT_TRUE(stream_->Write(request));
    EXPECT_TRUE(stream_->Read(&response));
    return response;
  }

  ServerReflectionResponse ask_symbol(const std::string& symbol) {
    ServerReflectionRequest request;
    request.set_file_containing_symbol(symbol);
    return ask(request);
  }

  static std::set<std::string> files(const ServerReflectionResponse& response) {
    std::set<std::string> names;
    for (const std::string& bytes :
         response.file_descriptor_response().file_descriptor_proto()) {
      google::protobuf::FileDescriptorProto file;
      EXPECT_TRUE(file.ParseFromString(bytes));
      names.insert(file.name());
    }
    return names;
  }

  CallLog calls_{Clock::real()};
  StreamLimiter streams_{1};
  ReflectionService service_{
      {"ferry.v1.GenerationService"}, &calls_, &streams_};
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<ServerReflection::Stub> stub_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<ServerReflectionRequest,
                                           ServerReflectionResponse>>
      stream_;
};

TEST_F(ReflectionServiceTest, ListsTheServices) {
  ServerReflectionRequest request;
  request.set_list_services("*");
  const ServerReflectionResponse response = ask(request);
  ASSERT_EQ(response.list_services_response().service_size(), 1);
  EXPECT_EQ(response.list_services_response().service(0).name(),
            "ferry.v1.GenerationService");
}

TEST_F(ReflectionServiceTest, DescribesEverythingThatIsServed) {
  for (const char* symbol :
       {"ferry.v1.GenerationService", "ferry.v1.GenerationService.Generate",
        "ferry.v1.PipelineService", "ferry.v1.OffloadReport",
        "ferry.v1.Job.State", "grpc.health.v1.Health",
        "grpc.health.v1.HealthCheckResponse",
        "grpc.reflection.v1alpha.ServerReflection", "google.rpc.Status",
        "google.rpc.ErrorInfo", "google.rpc.BadRequest", "google.rpc.RetryInfo",
        "google.rpc.ResourceInfo", "google.protobuf.Duration"}) {
    EXPECT_FALSE(files(ask_symbol(symbol)).empty()) << symbol;
  }
}

TEST_F(ReflectionServiceTest, SendsImportsOnceAStream) {
  const auto first = files(ask_symbol("ferry.v1.GenerationService"));
  EXPECT_THAT(first, Contains("ferry/v1/generation_service.proto"));
  EXPECT_THAT(first, Contains("ferry/v1/job.proto"));
  EXPECT_THAT(first, Contains("google/rpc/status.proto"));
  // The file itself again, nothing else.
  EXPECT_THAT(files(ask_symbol("ferry.v1.GenerationService")),
              ElementsAre("ferry/v1/generation_service.proto"));
}

TEST_F(ReflectionServiceTest, FindsFilesByName) {
  ServerReflectionRequest request;
  request.set_file_by_filename("ferry/v1/job.proto");
  EXPECT_THAT(files(ask(request)), Contains("ferry/v1/job.proto"));
}

TEST_F(ReflectionServiceTest, AnUnknownSymbolEndsNothing) {
  EXPECT_EQ(ask_symbol("ferry.v1.Nothing").error_response().error_code(),
            grpc::StatusCode::NOT_FOUND);
  ServerReflectionRequest request;
  request.mutable_file_containing_extension()->set_containing_type("nope");
  EXPECT_EQ(ask(request).error_response().error_code(),
            grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(ask(ServerReflectionRequest()).error_response().error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_FALSE(files(ask_symbol("ferry.v1.Job")).empty());
}

TEST_F(ReflectionServiceTest, KnowsExtensions) {
  ServerReflectionRequest request;
  request.set_all_extension_numbers_of_type("google.protobuf.MethodOptions");
  const auto response = ask(request).all_extension_numbers_response();
  EXPECT_EQ(response.base_type_name(), "google.protobuf.MethodOptions");
}

TEST_F(ReflectionServiceTest, StreamsAreBounded) {
  ask_symbol("ferry.v1.Job");
  grpc::ClientContext context;
  const auto second = stub_->ServerReflectionInfo(&context);
  ServerReflectionResponse response;
  EXPECT_FALSE(second->Read(&response));
  EXPECT_EQ(reason_of(second->Finish()), "TOO_MANY_STREAMS");
}

}  // namespace
}  // namespace ferry
