#include "server/worker/lifeline.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "absl/status/status.h"
#include "platform/base/check.h"

namespace ferry {

absl::StatusOr<std::unique_ptr<Lifeline>> Lifeline::create(UniqueFd end,
                                                           int exit_code) {
  FERRY_CHECK(end.valid());
  UniqueFd stop(eventfd(0, EFD_CLOEXEC));
  if (!stop.valid()) return absl::ErrnoToStatus(errno, "a lifeline");
  return std::unique_ptr<Lifeline>(
      new Lifeline(std::move(end), exit_code, std::move(stop)));
}

Lifeline::Lifeline(UniqueFd end, int exit_code, UniqueFd stop)
    : end_(std::move(end)),
      exit_code_(exit_code),
      stop_(std::move(stop)),
      thread_([this] { watch(); }) {}

Lifeline::~Lifeline() {
  eventfd_write(stop_.get(), 1);
  thread_.join();
}

void Lifeline::watch() {
  while (true) {
    // Of a pipe, its end is told in any case.
    pollfd fds[] = {{end_.get(), POLLRDHUP, 0}, {stop_.get(), POLLIN, 0}};
    if (poll(fds, 2, -1) < 0) continue;
    if (fds[1].revents != 0) return;
    _exit(exit_code_);
  }
}

}  // namespace ferry
