#pragma once

#include <cstddef>
#include <memory>

#include "ferry/v1/generation_service.grpc.pb.h"
#include "tests/support/child_process.h"

namespace ferry {

// What one message of Generate carries: 1 MiB less what ferryd, too, leaves for
// the message's other fields.
constexpr size_t kBarePieceBytes = (size_t{1} << 20) - (size_t{4} << 10);

// The program of bare_server_main.cc as a child.
//
// Threads: not thread-safe; the stub is.
class BareServer {
 public:
  // Blocks until it listens.
  BareServer();

  v1::GenerationService::Stub& stub() { return *stub_; }

 private:
  ChildProcess process_;
  std::unique_ptr<v1::GenerationService::Stub> stub_;
};

}  // namespace ferry
