#include "platform/os/signal_watcher.h"

#include <errno.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <system_error>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace ferry {

absl::StatusOr<std::unique_ptr<SignalWatcher>> SignalWatcher::create(
    const std::vector<int>& signals, std::function<void(int)> callback) {
  sigset_t set;
  sigemptyset(&set);
  for (const int number : signals) sigaddset(&set, number);
  signal(SIGPIPE, SIG_IGN);
  UniqueFd signal_fd(signalfd(-1, &set, SFD_CLOEXEC));
  UniqueFd stop_fd(eventfd(0, EFD_CLOEXEC));
  if (!signal_fd.valid() || !stop_fd.valid()) {
    return absl::ErrnoToStatus(errno, "cannot watch signals");
  }
  sigset_t old;
  pthread_sigmask(SIG_BLOCK, &set, &old);
  try {
    return std::unique_ptr<SignalWatcher>(new SignalWatcher(
        std::move(signal_fd), std::move(stop_fd), old, std::move(callback)));
  } catch (const std::system_error& error) {
    pthread_sigmask(SIG_SETMASK, &old, nullptr);
    return absl::ResourceExhaustedError(
        absl::StrCat("cannot watch signals: no thread: ", error.what()));
  }
}

SignalWatcher::SignalWatcher(UniqueFd signal_fd, UniqueFd stop_fd,
                             const sigset_t& old_mask,
                             std::function<void(int)> callback)
    : signal_fd_(std::move(signal_fd)),
      stop_fd_(std::move(stop_fd)),
      old_mask_(old_mask),
      callback_(std::move(callback)),
      thread_([this] { run(); }) {}

SignalWatcher::~SignalWatcher() {
  eventfd_write(stop_fd_.get(), 1);
  thread_.join();
  pthread_sigmask(SIG_SETMASK, &old_mask_, nullptr);
}

void SignalWatcher::run() {
  while (true) {
    pollfd fds[] = {{signal_fd_.get(), POLLIN, 0}, {stop_fd_.get(), POLLIN, 0}};
    if (poll(fds, 2, -1) < 0) continue;
    if (fds[1].revents != 0) return;
    signalfd_siginfo info;
    if (read(signal_fd_.get(), &info, sizeof(info)) == sizeof(info)) {
      callback_(static_cast<int>(info.ssi_signo));
    }
  }
}

}  // namespace ferry
