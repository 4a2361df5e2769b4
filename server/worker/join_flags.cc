#include "server/worker/join_flags.h"

#include <algorithm>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "platform/os/host_port.h"
#include "server/core/worker_token.h"
#include "server/ipc/worker_hello.h"

namespace ferry {
namespace {

class Check {
 public:
  explicit Check(const JoinFlags& flags) : flags_(flags) {}

  absl::StatusOr<DialOptions> run() {
    check_rendezvous();
    check_pipeline();
    check_place();
    check_token();
    options_.bind_address = flags_.bind_address;
    options_.device_index = flags_.device;
    if (flags_.device < 0) {
      add("device", absl::StrCat("must be at least 0, got ", flags_.device));
    }
    options_.join_timeout = flags_.join_timeout;
    if (flags_.join_timeout <= absl::ZeroDuration()) {
      add("join_timeout",
          absl::StrCat("must be positive, got ",
                       absl::FormatDuration(flags_.join_timeout)));
    }
    if (errors_.empty()) return options_;
    return absl::InvalidArgumentError(absl::StrJoin(errors_, "\n"));
  }

 private:
  void add(absl::string_view flag, absl::string_view what) {
    errors_.push_back(absl::StrCat("--", flag, ": ", what));
  }

  void check_rendezvous() {
    std::string text = flags_.rendezvous;
    if (text.empty() && !flags_.leader_address.empty()) {
      text = HostPort{flags_.leader_address, kDefaultWorkerPort}.to_string();
    }
    const absl::StatusOr<HostPort> address = parse_host_port(text);
    if (!address.ok()) return add("rendezvous", address.status().message());
    if (address->port == 0) return add("rendezvous", "must have a port");
    options_.rendezvous = *address;
  }

  void check_pipeline() {
    const std::string& name = flags_.pipeline;
    if (name.empty() ||
        !std::all_of(name.begin(), name.end(), absl::ascii_isgraph)) {
      add("pipeline",
          absl::StrCat("must be the name of a pipeline of ferryd, got \"", name,
                       "\""));
    }
    options_.pipeline = absl::StrCat("pipelines/", name);
  }

  // The flag, or else what the environment says, which must be a number.
  int number(absl::string_view flag, int given, absl::string_view variable,
             const std::string& text) {
    int value = given;
    if (given < 0 && !text.empty() && !absl::SimpleAtoi(text, &value)) {
      add(flag,
          absl::StrCat("must be a number, got ", variable, "=\"", text, "\""));
      return -1;
    }
    if (value < 0) add(flag, "is required, and at least 0");
    return value;
  }

  void check_place() {
    options_.rank =
        number("rank", flags_.rank, "LWS_WORKER_INDEX", flags_.worker_index);
    options_.world_size = number("world_size", flags_.world_size,
                                 "LWS_GROUP_SIZE", flags_.group_size);
    if (options_.rank >= 0 && options_.world_size >= 0 &&
        options_.rank >= options_.world_size) {
      add("rank", absl::StrCat("must be less than world_size, ",
                               options_.world_size, ", got ", options_.rank));
    }
  }

  void check_token() {
    if (flags_.worker_token_file.empty()) {
      return add("worker_token_file", "is required");
    }
    absl::StatusOr<std::string> token =
        read_worker_token(flags_.worker_token_file);
    if (!token.ok()) {
      return add("worker_token_file", token.status().message());
    }
    options_.token = *std::move(token);
  }

  const JoinFlags& flags_;
  DialOptions options_;
  std::vector<std::string> errors_;
};

}  // namespace

absl::StatusOr<DialOptions> make_dial_options(const JoinFlags& flags) {
  return Check(flags).run();
}

}  // namespace ferry
