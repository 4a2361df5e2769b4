#include "server/supervisor/own_worker.h"

#include <signal.h>

#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "platform/base/status_macros.h"
#include "platform/os/exit_status.h"
#include "platform/os/host_name.h"
#include "platform/os/pipe.h"
#include "platform/os/socket_pair.h"
#include "server/ipc/worker_exit.h"

namespace ferry {
namespace {

// The kernel shall take workers before ferryd and before most else.
constexpr int kOomScoreAdj = 500;
// Where the child finds what it inherits, in this order; then the store.
constexpr int kIpcFd = 3;
constexpr int kLifelineFd = 4;
// What it wrote last is read within this time of its end, unless a child of
// its own holds the pipe.
constexpr absl::Duration kTailTimeout = absl::Seconds(1);

}  // namespace

absl::StatusOr<OwnWorker::Started> OwnWorker::start(
    const WorkerSettings& settings, int rank, int64_t generation,
    ProcessSpawner& spawner, LogDrain& drain, GroupFds group) {
  ASSIGN_OR_RETURN(SocketPair ipc, make_socket_pair());
  ASSIGN_OR_RETURN(Pipe lifeline, make_pipe());
  ASSIGN_OR_RETURN(Pipe output, make_pipe());
  SubprocessOptions options;
  options.argv = settings.command;
  options.argv.push_back(absl::StrCat("--ipc_fd=", kIpcFd));
  options.argv.push_back(absl::StrCat("--lifeline_fd=", kLifelineFd));
  options.argv.push_back(absl::StrCat("--rank=", rank));
  options.argv.push_back(absl::StrCat("--generation=", generation));
  options.inherited = {ipc.second.get(), lifeline.read_end.get()};
  if (group.store >= 0) options.inherited.push_back(group.store);
  if (group.images >= 0) {
    options.argv.push_back(absl::StrCat(
        "--images_fd=", kIpcFd + static_cast<int>(options.inherited.size())));
    options.inherited.push_back(group.images);
  }
  options.stdout_fd = output.write_end.get();
  options.stderr_fd = output.write_end.get();
  options.oom_score_adj = kOomScoreAdj;
  ASSIGN_OR_RETURN(std::unique_ptr<Subprocess> process, spawner.spawn(options));
  std::shared_ptr<LogTail> tail =
      drain.add({settings.pipeline, rank}, std::move(output.read_end));
  // The child's ends must not stay open here, else their other ends never see
  // an end.
  ipc.second.reset();
  lifeline.read_end.reset();
  output.write_end.reset();
  Place place;
  place.pid = process->pid();
  place.host = host_name();
  // ferryd's ranks are the first ones.
  place.device_index = rank;
  return Started{absl::WrapUnique(new OwnWorker(
                     std::move(place), std::move(process), std::move(tail),
                     std::move(lifeline.write_end))),
                 std::move(ipc.first)};
}

OwnWorker::OwnWorker(Place place, std::unique_ptr<Subprocess> process,
                     std::shared_ptr<LogTail> tail, UniqueFd lifeline)
    : WorkerLink(std::move(place)),
      process_(std::move(process)),
      tail_(std::move(tail)),
      lifeline_(std::move(lifeline)) {}

std::optional<std::string> OwnWorker::wait_for(absl::Duration timeout) {
  const std::optional<ExitStatus> status = process_->wait_for(timeout);
  if (!status.has_value()) return std::nullopt;
  return describe_worker_exit(*status);
}

void OwnWorker::kill() { process_->send_signal(SIGKILL); }

void OwnWorker::interrupt() { process_->send_signal(SIGTERM); }

void OwnWorker::terminate(absl::Duration grace) { process_->terminate(grace); }

std::vector<std::string> OwnWorker::last_lines() {
  if (process_->wait_for(absl::ZeroDuration()).has_value()) {
    tail_->wait_closed(kTailTimeout);
  }
  return tail_->lines();
}

}  // namespace ferry
