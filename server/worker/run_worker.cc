#include "server/worker/run_worker.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <memory>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "grpcpp/server.h"
#include "grpcpp/server_builder.h"
#include "platform/base/clock.h"
#include "platform/base/error_info.h"
#include "platform/base/fault_point.h"
#include "platform/base/logging.h"
#include "platform/base/status_macros.h"
#include "platform/os/signal_watcher.h"
#include "platform/os/unique_fd.h"
#include "server/ipc/fd_channel.h"
#include "server/ipc/worker_exit.h"
#include "server/worker/dial_ferryd.h"
#include "server/worker/lifeline.h"
#include "server/worker/loaded_pipeline.h"
#include "server/worker/stop_request.h"
#include "server/worker/worker_service_impl.h"

namespace ferry {
namespace {

// How long calls may go on after SIGTERM before they are cancelled.
constexpr std::chrono::milliseconds kShutdownGrace(100);
// How long ferryd has to end the rest of a group that lost a rank.
constexpr absl::Duration kGroupGrace = absl::Seconds(5);

absl::StatusOr<UniqueFd> take_fd(const char* flag, int fd) {
  const int flags = fd < 0 ? -1 : fcntl(fd, F_GETFD);
  if (flags < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(flag, "=", fd,
                     " is no open descriptor; ferryd starts workers, others "
                     "give --rendezvous"));
  }
  fcntl(fd, F_SETFD, flags | FD_CLOEXEC);
  return UniqueFd(fd);
}

// Nothing is given back first: what failed may never answer. A group fails by
// the loss of a rank: ferryd sees which one it was, and ends the others, so
// that this process ends by itself only where nobody does.
[[noreturn]] void end_process(const absl::Status& error, StopRequest& stop) {
  const bool is_device = get_error_info(error)->reason == kDeviceFailed;
  log_error(is_device ? "the device failed and this process ends"
                      : "the group failed and this process ends",
            {{"error", error.message()}});
  if (!is_device) stop.wait_for(kGroupGrace);
  _exit(is_device ? kWorkerDeviceFailed : kWorkerGroupFailed);
}

// Until it is asked to stop.
absl::Status serve(UniqueFd ipc, StopRequest& stop, PipelineLoader loader) {
  // Outlives the server, which calls it.
  WorkerServiceImpl service(
      std::move(loader),
      [&](const absl::Status& error) { end_process(error, stop); },
      Clock::real());
  grpc::ServerBuilder builder;
  builder.RegisterService(&service);
  set_fd_server_limits(builder);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr) return absl::InternalError("cannot start gRPC");
  fault_point("connect");
  serve_over_fd(*server, std::move(ipc));
  stop.wait();
  server->Shutdown(std::chrono::system_clock::now() + kShutdownGrace);
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<SignalWatcher>> watch_signals(
    StopRequest& stop) {
  return SignalWatcher::create({SIGTERM, SIGINT}, [&](int) { stop.request(); });
}

// What needs threads, so that their lack is an error.
template <typename Function>
absl::Status with_threads(Function&& function) {
  try {
    return std::forward<Function>(function)();
  } catch (const std::system_error& error) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the worker gets no thread: ", error.what()));
  }
}

absl::Status serve_ferryd(const WorkerOptions& options, PipelineLoader loader) {
  StopRequest stop;
  ASSIGN_OR_RETURN(const std::unique_ptr<SignalWatcher> signals,
                   watch_signals(stop));
  ASSIGN_OR_RETURN(UniqueFd ipc, take_fd("--ipc_fd", options.ipc_fd));
  ASSIGN_OR_RETURN(UniqueFd lifeline_fd,
                   take_fd("--lifeline_fd", options.lifeline_fd));
  ASSIGN_OR_RETURN(const std::unique_ptr<Lifeline> lifeline,
                   Lifeline::create(std::move(lifeline_fd)));
  return serve(std::move(ipc), stop, std::move(loader));
}

absl::Status dial_and_serve(const DialOptions& options, PipelineLoader loader) {
  StopRequest stop;
  ASSIGN_OR_RETURN(const std::unique_ptr<SignalWatcher> signals,
                   watch_signals(stop));
  ASSIGN_OR_RETURN(UniqueFd socket, dial_ferryd(options, stop));
  // gRPC closes its own.
  UniqueFd control(fcntl(socket.get(), F_DUPFD_CLOEXEC, 0));
  if (!control.valid()) return absl::ErrnoToStatus(errno, "a connection");
  ASSIGN_OR_RETURN(
      const std::unique_ptr<Lifeline> lifeline,
      Lifeline::create(std::move(control), kWorkerConnectionEnded));
  return serve(std::move(socket), stop, std::move(loader));
}

}  // namespace

absl::Status run_worker(const WorkerOptions& options, PipelineLoader loader) {
  return with_threads([&] { return serve_ferryd(options, std::move(loader)); });
}

absl::Status run_external_worker(const DialOptions& options,
                                 PipelineLoader loader) {
  return with_threads(
      [&] { return dial_and_serve(options, std::move(loader)); });
}

}  // namespace ferry
