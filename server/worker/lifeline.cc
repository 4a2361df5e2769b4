#include "server/worker/lifeline.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <utility>

namespace ferry {

Lifeline::Lifeline(UniqueFd end, int exit_code)
    : end_(std::move(end)),
      exit_code_(exit_code),
      stop_(eventfd(0, EFD_CLOEXEC)),
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
