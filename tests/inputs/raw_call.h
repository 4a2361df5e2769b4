#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "grpcpp/channel.h"
#include "grpcpp/client_context.h"
#include "grpcpp/support/status.h"

namespace ferry {

// What came back of a call.
struct RawAnswer {
  grpc::Status status;
  // Serialized responses.
  std::vector<std::string> messages;
};

// Makes a call with bytes for messages, as no generated stub would: any bytes,
// any number of messages. `method` is "/package.Service/Method". Blocks until
// the call has ended, 60 s at most.
RawAnswer call_raw(
    const std::shared_ptr<grpc::Channel>& channel, const std::string& method,
    const std::vector<absl::string_view>& requests,
    const std::function<void(grpc::ClientContext& context)>& prepare = {});

}  // namespace ferry
