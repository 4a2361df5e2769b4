#include "server/worker/dial_ferryd.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "platform/base/clock.h"
#include "platform/base/logging.h"
#include "platform/base/status_macros.h"
#include "platform/os/host_name.h"
#include "platform/os/tcp_socket.h"
#include "server/ipc/worker_hello.h"

namespace ferry {
namespace {

// Between two tries, and for one of them.
constexpr absl::Duration kPause = absl::Seconds(1);
constexpr absl::Duration kConnectTimeout = absl::Seconds(5);
// ferryd answers at once.
constexpr absl::Duration kAnswerTimeout = absl::Seconds(15);

// Names are text of others: a hello holds what can be printed, and no spaces.
std::string printable_host_name() {
  std::string name = host_name();
  std::replace_if(
      name.begin(), name.end(), [](char c) { return !absl::ascii_isgraph(c); },
      '?');
  return name;
}

absl::Status send_hello(const DialOptions& options, const UniqueFd& socket) {
  ASSIGN_OR_RETURN(const HostPort local, local_address(socket));
  WorkerHello hello;
  hello.token = options.token;
  hello.pipeline = options.pipeline;
  hello.rank = options.rank;
  hello.world_size = options.world_size;
  hello.device_index = options.device_index;
  hello.pid = getpid();
  hello.host = printable_host_name();
  hello.listen_host = local.host;
  const std::string line = format_hello(hello);
  if (send(socket.get(), line.data(), line.size(), MSG_NOSIGNAL) !=
      static_cast<ssize_t>(line.size())) {
    return absl::UnavailableError("the connection has ended");
  }
  return absl::OkStatus();
}

// Byte by byte: what follows the line is gRPC's.
absl::StatusOr<std::string> read_line(const UniqueFd& socket) {
  const Clock& clock = Clock::real();
  const absl::Duration deadline = clock.monotonic() + kAnswerTimeout;
  std::string line;
  while (line.size() <= kMaxHelloBytes) {
    char byte = 0;
    const ssize_t size = recv(socket.get(), &byte, 1, 0);
    if (size == 0) return absl::UnavailableError("the connection has ended");
    if (size > 0) {
      if (byte == '\n') return line;
      line.push_back(byte);
      continue;
    }
    if (errno != EAGAIN && errno != EINTR) {
      return absl::UnavailableError("the connection has ended");
    }
    const absl::Duration left = deadline - clock.monotonic();
    if (left <= absl::ZeroDuration()) {
      return absl::UnavailableError("it does not answer");
    }
    wait_for_bytes_of(socket, left);
  }
  return absl::InvalidArgumentError("it answers with something else");
}

absl::StatusOr<UniqueFd> try_once(const DialOptions& options) {
  ASSIGN_OR_RETURN(
      UniqueFd socket,
      connect_tcp(options.rendezvous, options.bind_address,
                  std::min(kConnectTimeout, options.join_timeout)));
  RETURN_IF_ERROR(send_hello(options, socket));
  ASSIGN_OR_RETURN(const std::string answer, read_line(socket));
  RETURN_IF_ERROR(parse_answer(answer));
  return socket;
}

// Another try may end otherwise.
bool is_worth_another_try(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status);
}

}  // namespace

absl::StatusOr<UniqueFd> dial_ferryd(const DialOptions& options,
                                     StopRequest& stop) {
  const Clock& clock = Clock::real();
  const absl::Duration deadline = clock.monotonic() + options.join_timeout;
  const std::string who =
      absl::StrCat("ferryd at ", options.rendezvous.to_string());
  bool has_said = false;
  while (true) {
    absl::StatusOr<UniqueFd> socket = try_once(options);
    if (socket.ok()) {
      log_info("ferryd has let this worker in",
               {{"ferryd", options.rendezvous.to_string()},
                {"pipeline", options.pipeline},
                {"rank", options.rank}});
      return socket;
    }
    const absl::Status& why = socket.status();
    if (absl::IsPermissionDenied(why)) {
      return absl::PermissionDeniedError(
          absl::StrCat(who, " refuses this worker: ", why.message()));
    }
    if (!is_worth_another_try(why)) {
      return absl::Status(why.code(), absl::StrCat(who, ": ", why.message()));
    }
    if (clock.monotonic() >= deadline) {
      return absl::DeadlineExceededError(
          absl::StrCat(who, " has not let this worker in within ",
                       absl::FormatDuration(options.join_timeout),
                       " (--join_timeout): ", why.message()));
    }
    if (!has_said) {
      log_info(
          "waiting for ferryd",
          {{"ferryd", options.rendezvous.to_string()}, {"why", why.message()}});
      has_said = true;
    }
    if (stop.wait_for(kPause)) return absl::CancelledError("asked to stop");
  }
}

}  // namespace ferry
