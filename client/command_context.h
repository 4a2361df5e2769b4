#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <ostream>
#include <string>

#include "absl/time/time.h"
#include "platform/base/clock.h"

namespace ferry {

// What every command of ferryctl gets. Not owned: must outlive the command.
struct CommandContext {
  std::shared_ptr<grpc::Channel> channel;
  // Results.
  std::ostream* out;
  // Progress and errors.
  std::ostream* err;
  const Clock* clock;
  // Results as JSON.
  bool json = false;
  // `err` is a terminal.
  bool terminal = false;
  // Of one call. Default: generations have none, other calls 10 s.
  absl::Duration timeout = absl::InfiniteDuration();
};

// Sets the deadline of a call that answers at once.
inline void set_deadline(const CommandContext& context,
                         grpc::ClientContext* call) {
  const absl::Duration timeout = std::min(context.timeout, absl::Seconds(10));
  call->set_deadline(std::chrono::system_clock::now() +
                     absl::ToChronoMilliseconds(timeout));
}

// `jobs/1` of "1" and of "jobs/1".
inline std::string resource_name(const std::string& collection,
                                 const std::string& name) {
  return name.rfind(collection + "/", 0) == 0 ? name : collection + "/" + name;
}

}  // namespace ferry
