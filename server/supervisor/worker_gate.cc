#include "server/supervisor/worker_gate.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "platform/base/check.h"
#include "platform/base/logging.h"
#include "platform/base/status_macros.h"
#include "platform/os/host_port.h"
#include "platform/os/tcp_socket.h"
#include "server/core/worker_token.h"

namespace ferry {
namespace {

// Those above it crowd out the oldest, which has been listened to meanwhile:
// fewer come in at a time.
constexpr size_t kMaxStrangers = 64;
constexpr int kMaxAccepted = 16;
constexpr absl::Duration kPauseWithoutDescriptors = absl::Milliseconds(100);
// Before what polls and descriptors of strangers: the listener, the stop.
constexpr size_t kOwnDescriptors = 2;

// A line fits into the buffer of a connection on which nothing was sent.
bool send_line(const UniqueFd& socket, const std::string& line) {
  return send(socket.get(), line.data(), line.size(), MSG_NOSIGNAL) ==
         static_cast<ssize_t>(line.size());
}

}  // namespace

absl::StatusOr<std::unique_ptr<WorkerGate>> WorkerGate::open_for(
    const DaemonConfig& config, const Clock& clock) {
  if (config.worker_address.empty()) return nullptr;
  Options options;
  options.address = config.worker_address;
  ASSIGN_OR_RETURN(options.token, read_worker_token(config.worker_token_file));
  for (const PipelineSettings& pipeline : config.pipelines) {
    options.groups.push_back({absl::StrCat("pipelines/", pipeline.name),
                              pipeline.ranks, pipeline.external_ranks});
  }
  return open(std::move(options), clock);
}

absl::StatusOr<std::unique_ptr<WorkerGate>> WorkerGate::open(
    Options options, const Clock& clock) {
  ASSIGN_OR_RETURN(const HostPort wanted, parse_host_port(options.address));
  ASSIGN_OR_RETURN(UniqueFd listener, listen_tcp(wanted));
  // With the name that others know it by, and the port that was found.
  ASSIGN_OR_RETURN(HostPort address, local_address(listener));
  address.host = wanted.host;
  UniqueFd stop(eventfd(0, EFD_CLOEXEC));
  if (!stop.valid()) return absl::ErrnoToStatus(errno, "worker_address");
  return std::unique_ptr<WorkerGate>(
      new WorkerGate(std::move(options), std::move(listener), std::move(stop),
                     address.to_string(), clock));
}

WorkerGate::WorkerGate(Options options, UniqueFd listener, UniqueFd stop,
                       std::string address, const Clock& clock)
    : options_(std::move(options)),
      listener_(std::move(listener)),
      stop_(std::move(stop)),
      address_(std::move(address)),
      clock_(clock) {
  for (const Group& group : options_.groups) {
    if (group.external_ranks == 0) continue;
    Room& room = rooms_[group.pipeline];
    room.ranks = group.ranks;
    room.first_rank = group.ranks - group.external_ranks;
    room.places.resize(static_cast<size_t>(group.external_ranks));
  }
  thread_ = std::thread([this] { run(); });
}

WorkerGate::~WorkerGate() {
  eventfd_write(stop_.get(), 1);
  thread_.join();
}

absl::StatusOr<WorkerGate::Connections> WorkerGate::take(
    const std::string& pipeline, absl::Duration timeout) {
  const absl::Duration deadline = clock_.monotonic() + timeout;
  bool has_said = false;
  MutexLock lock(&mutex_);
  Room& room = room_locked(pipeline);
  while (!room.closed) {
    const std::vector<int> missing = missing_ranks(room);
    if (missing.empty()) {
      Connections connections;
      for (Place& place : room.places) {
        place.taken = place.waiting;
        connections.push_back(std::move(place.waiting));
        place.waiting = nullptr;
      }
      return connections;
    }
    const absl::Duration left = deadline - clock_.monotonic();
    if (left <= absl::ZeroDuration()) {
      return absl::DeadlineExceededError(absl::StrCat(
          "no worker has come for rank ", absl::StrJoin(missing, ", rank "),
          " within ", absl::FormatDuration(timeout)));
    }
    if (!has_said) {
      log_info(
          "waiting for the workers of external ranks",
          {{"pipeline", pipeline}, {"ranks", absl::StrJoin(missing, ",")}});
      has_said = true;
    }
    changed_.wait_for(&mutex_, absl::ToChronoNanoseconds(left));
  }
  return absl::CancelledError("ferryd ends");
}

void WorkerGate::close(const std::string& pipeline) {
  MutexLock lock(&mutex_);
  Room& room = room_locked(pipeline);
  room.closed = true;
  for (Place& place : room.places) place.waiting = nullptr;
  changed_.notify_all();
}

WorkerGate::Room& WorkerGate::room_locked(const std::string& pipeline) {
  const auto found = rooms_.find(pipeline);
  FERRY_CHECK(found != rooms_.end());
  return found->second;
}

std::vector<int> WorkerGate::missing_ranks(Room& room) {
  std::vector<int> missing;
  for (size_t i = 0; i < room.places.size(); ++i) {
    std::shared_ptr<WorkerConnection>& waiting = room.places[i].waiting;
    if (waiting != nullptr && waiting->has_ended()) waiting = nullptr;
    if (waiting == nullptr) {
      missing.push_back(room.first_rank + static_cast<int>(i));
    }
  }
  return missing;
}

void WorkerGate::run() {
  std::vector<short> events;
  while (true) {
    wait_for_something(&events);
    if (events[1] != 0) return;
    // Before the next ones come, to whom no event belongs.
    listen_to_strangers(events);
    if (events[0] != 0) accept_some();
  }
}

void WorkerGate::wait_for_something(std::vector<short>* events) {
  const absl::Duration now = clock_.monotonic();
  const bool accepts = now >= accept_after_;
  absl::Duration next = accepts ? absl::InfiniteDuration() : accept_after_;
  std::vector<pollfd> fds = {{accepts ? listener_.get() : -1, POLLIN, 0},
                             {stop_.get(), POLLIN, 0}};
  for (const Stranger& stranger : strangers_) {
    fds.push_back({stranger.socket.get(), POLLIN, 0});
    next = std::min(next, stranger.deadline);
  }
  int timeout_ms = -1;
  if (next != absl::InfiniteDuration()) {
    timeout_ms = static_cast<int>(absl::ToInt64Milliseconds(
        std::clamp(next - now, absl::ZeroDuration(), absl::Hours(1)) +
        absl::Microseconds(999)));
  }
  if (poll(fds.data(), fds.size(), timeout_ms) < 0) {
    for (pollfd& fd : fds) fd.revents = 0;
  }
  events->clear();
  for (const pollfd& fd : fds) events->push_back(fd.revents);
}

void WorkerGate::accept_some() {
  for (int i = 0; i < kMaxAccepted; ++i) {
    absl::StatusOr<UniqueFd> socket = accept_tcp(listener_);
    if (!socket.ok()) {
      if (absl::IsResourceExhausted(socket.status())) {
        accept_after_ = clock_.monotonic() + kPauseWithoutDescriptors;
      }
      return;
    }
    if (strangers_.size() >= kMaxStrangers) {
      refuse(strangers_.front(),
             absl::ResourceExhaustedError("too many others connect at a time"));
      strangers_.erase(strangers_.begin());
    }
    const absl::StatusOr<HostPort> peer = peer_address(*socket);
    Stranger stranger;
    stranger.peer = peer.ok() ? peer->to_string() : "unknown";
    stranger.socket = *std::move(socket);
    stranger.deadline = clock_.monotonic() + options_.hello_timeout;
    strangers_.push_back(std::move(stranger));
  }
}

void WorkerGate::listen_to_strangers(const std::vector<short>& events) {
  const absl::Duration now = clock_.monotonic();
  std::vector<Stranger> left;
  for (size_t i = 0; i < strangers_.size(); ++i) {
    Stranger& stranger = strangers_[i];
    if (events[kOwnDescriptors + i] != 0 && !listen_to(stranger)) continue;
    if (now >= stranger.deadline) {
      refuse(stranger, absl::InvalidArgumentError(absl::StrCat(
                           "it did not say who it is within ",
                           absl::FormatDuration(options_.hello_timeout))));
      continue;
    }
    left.push_back(std::move(stranger));
  }
  strangers_ = std::move(left);
}

bool WorkerGate::listen_to(Stranger& stranger) {
  // With what is too long for a line: unread, it would keep the answer from the
  // peer.
  char bytes[2 * kMaxHelloBytes];
  const ssize_t size = recv(stranger.socket.get(), bytes, sizeof bytes, 0);
  if (size < 0 && (errno == EAGAIN || errno == EINTR)) return true;
  absl::Status status;
  if (size <= 0) {
    status = absl::InvalidArgumentError(
        "it closed the connection and had not said who it is");
  } else {
    stranger.line.append(bytes, static_cast<size_t>(size));
    const size_t end = stranger.line.find('\n');
    if (end == std::string::npos && stranger.line.size() <= kMaxHelloBytes) {
      return true;
    }
    // It waits for an answer, so that nothing can follow.
    status = end == stranger.line.size() - 1
                 ? let_in(stranger)
                 : absl::InvalidArgumentError(
                       "it sent something else than one line");
  }
  if (!status.ok()) refuse(stranger, status);
  return false;
}

void WorkerGate::refuse(const Stranger& stranger, const absl::Status& why) {
  send_line(stranger.socket, format_answer(why));
  if (log_budget_.take(clock_.monotonic())) {
    log_warning("a worker was not let in",
                {{"peer", stranger.peer},
                 {"why", why.message()},
                 {"dropped_lines", log_budget_.take_dropped()}});
  }
}

absl::Status WorkerGate::let_in(Stranger& stranger) {
  stranger.line.pop_back();
  ASSIGN_OR_RETURN(const WorkerHello hello, parse_hello(stranger.line));
  // Before anything else is told.
  if (!tokens_equal(hello.token, options_.token)) {
    return absl::PermissionDeniedError(
        "its token is not that of ferryd's worker_token_file");
  }
  MutexLock lock(&mutex_);
  ASSIGN_OR_RETURN(Place* const place, find_place_locked(hello));
  // Before anybody can speak gRPC on it.
  if (!send_line(stranger.socket, format_answer(absl::OkStatus()))) {
    return absl::UnavailableError("its connection has ended");
  }
  ASSIGN_OR_RETURN(WorkerConnection connection,
                   WorkerConnection::create(std::move(stranger.socket), hello));
  auto worker = std::make_shared<WorkerConnection>(std::move(connection));
  log_info("a worker has come in", {{"pipeline", hello.pipeline},
                                    {"rank", hello.rank},
                                    {"peer", worker->peer()},
                                    {"host", hello.host},
                                    {"worker_pid", hello.pid}});
  place->waiting = std::move(worker);
  changed_.notify_all();
  return absl::OkStatus();
}

absl::StatusOr<WorkerGate::Place*> WorkerGate::find_place_locked(
    const WorkerHello& hello) {
  const auto it = rooms_.find(hello.pipeline);
  if (it == rooms_.end()) {
    return absl::NotFoundError(absl::StrCat("pipeline: \"", hello.pipeline,
                                            "\" has no external ranks here"));
  }
  Room& room = it->second;
  if (room.closed) return absl::UnavailableError("ferryd ends");
  std::vector<std::string> wrong;
  if (hello.world_size != room.ranks) {
    wrong.push_back(absl::StrCat("world_size: must be ", room.ranks, ", got ",
                                 hello.world_size));
  }
  if (hello.rank < room.first_rank || hello.rank >= room.ranks) {
    wrong.push_back(absl::StrCat("rank: must be ", room.first_rank, " to ",
                                 room.ranks - 1, ", got ", hello.rank));
  }
  if (!wrong.empty()) {
    return absl::InvalidArgumentError(absl::StrJoin(wrong, "; "));
  }
  Place& place = room.places[static_cast<size_t>(hello.rank - room.first_rank)];
  for (const auto& other : {place.taken.lock(), place.waiting}) {
    if (other == nullptr || other->has_ended()) continue;
    return absl::AlreadyExistsError(absl::StrCat(
        "rank: ", hello.rank, " is taken by the worker at ", other->peer(),
        ", process ", other->hello().pid, " of ", other->hello().host));
  }
  return &place;
}

}  // namespace ferry
