#include "tests/benchmarks/bare_server.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>

#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "tests/benchmarks/measurement.h"
#include "tests/support/eventually.h"
#include "tests/support/files.h"

namespace ferry {
namespace {

// As many as ferryd has with its default --max_inflight.
constexpr int kMaxThreads = 292;

ChildProcess::Options options() {
  ChildProcess::Options result;
  result.arguments = {runfile("tests/benchmarks/bare_server"),
                      absl::StrCat(kMaxThreads)};
  return result;
}

}  // namespace

BareServer::BareServer() : process_(options()) {
  std::string line;
  eventually([&] {
    line = process_.read_stdout();
    return absl::EndsWith(line, "\n");
  });
  require(!line.empty(), "the bare server does not start");
  const std::string address(absl::StripSuffix(line, "\n"));
  stub_ = v1::GenerationService::NewStub(
      grpc::CreateChannel(address, grpc::InsecureChannelCredentials()));
}

}  // namespace ferry
