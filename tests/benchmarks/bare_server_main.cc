// A gRPC server that does nothing but answer, to compare ferryd with: of the
// same API kind, with the same limit of threads, for the same client.
//   bare_server MAX_THREADS
// GetJob gives the name back. Generate sends `num_images` pieces of an output,
// as large as ferryd's. Prints its address, and runs until it is killed.

#include <grpcpp/resource_quota.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "ferry/v1/generation_service.grpc.pb.h"
#include "tests/benchmarks/bare_server.h"

namespace ferry {
namespace {

class BareService final : public v1::GenerationService::Service {
 public:
  BareService() : pieces_(kPieces) {
    for (v1::GenerateResponse& piece : pieces_) {
      piece.mutable_event()->mutable_output_chunk()->set_data(
          std::string(kBarePieceBytes, 'x'));
    }
  }

  grpc::Status GetJob(grpc::ServerContext*, const v1::GetJobRequest* request,
                      v1::GetJobResponse* response) override {
    response->mutable_job()->set_name(request->name());
    return grpc::Status::OK;
  }

  grpc::Status Generate(
      grpc::ServerContext*, const v1::GenerateRequest* request,
      grpc::ServerWriter<v1::GenerateResponse>* writer) override {
    for (int i = 0; i < request->spec().num_images(); ++i) {
      const size_t piece = static_cast<size_t>(i) % pieces_.size();
      if (!writer->Write(pieces_[piece])) return grpc::Status::CANCELLED;
    }
    return grpc::Status::OK;
  }

 private:
  // More bytes than a cache holds: an output comes from memory, too.
  static constexpr size_t kPieces = 64;

  std::vector<v1::GenerateResponse> pieces_;
};

int run(int max_threads) {
  BareService service;
  grpc::ServerBuilder builder;
  grpc::ResourceQuota quota;
  quota.SetMaxThreads(max_threads);
  builder.SetResourceQuota(quota);
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(),
                           &port);
  builder.RegisterService(&service);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr || port == 0) return 1;
  std::cout << absl::StrCat("127.0.0.1:", port) << std::endl;
  server->Wait();
  return 0;
}

}  // namespace
}  // namespace ferry

int main(int argc, char** argv) {
  int max_threads = 0;
  if (argc != 2 || !absl::SimpleAtoi(argv[1], &max_threads)) {
    std::cerr << "bare_server MAX_THREADS" << std::endl;
    return 1;
  }
  return ferry::run(max_threads);
}
