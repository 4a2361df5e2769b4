#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "ferry/v1/generation_service.grpc.pb.h"
#include "grpcpp/client_context.h"

namespace ferry {

// One Generate call, read event by event on the test's thread.
//
// Ownership: the stub must outlive it. The destructor cancels a call that has
//   not ended.
// Threads: not thread-safe; cancel() may come from another thread.
class GenerateCall {
 public:
  struct Options {
    absl::Duration deadline = absl::Seconds(60);
    // Called for every event that was read.
    std::function<void(const v1::JobEvent& event)> on_event;
  };

  GenerateCall(v1::GenerationService::StubInterface& stub,
               const v1::GenerateRequest& request, Options options);
  GenerateCall(v1::GenerationService::StubInterface& stub,
               const v1::GenerateRequest& request)
      : GenerateCall(stub, request, Options()) {}
  ~GenerateCall();

  // Reads one event; nothing when the stream has ended.
  std::optional<v1::JobEvent> next();
  // Reads until the job is in `state`, or has made `step` steps. Returns false
  // when the stream ends before.
  bool wait_for_state(v1::Job::State state);
  bool wait_for_step(int step);
  // Reads the rest and returns the stream's status.
  const grpc::Status& finish();
  // Cancels the call, as a client that goes away does.
  void cancel() { context_.TryCancel(); }

  // Read so far.
  const std::vector<v1::JobEvent>& events() const { return events_; }
  // The newest Job event.
  const v1::Job& job() const { return job_; }
  // Bytes of the outputs by index.
  const std::map<int, std::string>& outputs() const { return outputs_; }

 private:
  grpc::ClientContext context_;
  Options options_;
  std::unique_ptr<grpc::ClientReaderInterface<v1::GenerateResponse>> reader_;
  std::vector<v1::JobEvent> events_;
  v1::Job job_;
  v1::Progress progress_;
  std::map<int, std::string> outputs_;
  std::optional<grpc::Status> status_;
};

// Text that stands in every prompt of the tests: no log may hold it.
constexpr char kPromptCanary[] = "canary-kumquat";

// A request with a prompt that holds the canary, 64×64 pixels, 4 steps and
// this seed.
v1::GenerateRequest make_request(int64_t seed = 1);

// One of a single step whose output, 12 MiB in four pictures, is more than a
// connection buffers. For large_package() (packages.h).
v1::GenerateRequest make_large_request();

}  // namespace ferry
