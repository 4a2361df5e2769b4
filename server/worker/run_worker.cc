#include "server/worker/run_worker.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "grpcpp/server.h"
#include "grpcpp/server_builder.h"
#include "platform/base/clock.h"
#include "platform/base/error_info.h"
#include "platform/base/fault_point.h"
#include "platform/base/logging.h"
#include "platform/base/mutex.h"
#include "platform/base/status_macros.h"
#include "platform/os/signal_watcher.h"
#include "platform/os/unique_fd.h"
#include "server/ipc/fd_channel.h"
#include "server/ipc/worker_exit.h"
#include "server/worker/lifeline.h"
#include "server/worker/loaded_pipeline.h"
#include "server/worker/worker_service_impl.h"

namespace ferry {
namespace {

// How long calls may go on after SIGTERM before they are cancelled.
constexpr std::chrono::milliseconds kShutdownGrace(100);
// How long ferryd has to end the rest of a group that lost a rank.
constexpr std::chrono::seconds kGroupGrace(5);

// Set by a signal, awaited by main.
class StopRequest {
 public:
  void request() EXCLUDES_LOCK(mutex_) {
    MutexLock lock(&mutex_);
    requested_ = true;
    changed_.notify_all();
  }

  void wait() EXCLUDES_LOCK(mutex_) {
    MutexLock lock(&mutex_);
    while (!requested_) changed_.wait(&mutex_);
  }

  void wait_for(std::chrono::nanoseconds timeout) EXCLUDES_LOCK(mutex_) {
    const auto deadline = std::chrono::steady_clock::now() + timeout;
    MutexLock lock(&mutex_);
    while (!requested_) {
      const auto left = deadline - std::chrono::steady_clock::now();
      if (left <= left.zero()) return;
      changed_.wait_for(&mutex_, left);
    }
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  bool requested_ GUARDED_BY(mutex_) = false;
};

absl::StatusOr<UniqueFd> take_fd(const char* flag, int fd) {
  const int flags = fd < 0 ? -1 : fcntl(fd, F_GETFD);
  if (flags < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(flag, "=", fd,
                     " is no open descriptor; ferryd starts workers, they are "
                     "not started by hand"));
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

}  // namespace

absl::Status run_worker(const WorkerOptions& options, PipelineLoader loader) {
  StopRequest stop;
  ASSIGN_OR_RETURN(
      const std::unique_ptr<SignalWatcher> signals,
      SignalWatcher::create({SIGTERM, SIGINT}, [&](int) { stop.request(); }));
  ASSIGN_OR_RETURN(UniqueFd ipc, take_fd("--ipc_fd", options.ipc_fd));
  ASSIGN_OR_RETURN(UniqueFd lifeline_fd,
                   take_fd("--lifeline_fd", options.lifeline_fd));
  const Lifeline lifeline(std::move(lifeline_fd));
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

}  // namespace ferry
