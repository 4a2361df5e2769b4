#include "server/worker/lifeline.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <utility>

namespace ferry {

Lifeline::Lifeline(UniqueFd read_end)
    : read_end_(std::move(read_end)),
      stop_(eventfd(0, EFD_CLOEXEC)),
      thread_([this] { watch(); }) {}

Lifeline::~Lifeline() {
  eventfd_write(stop_.get(), 1);
  thread_.join();
}

void Lifeline::watch() {
  while (true) {
    pollfd fds[] = {{read_end_.get(), POLLIN, 0}, {stop_.get(), POLLIN, 0}};
    if (poll(fds, 2, -1) < 0) continue;
    if (fds[1].revents != 0) return;
    // Nobody writes to the pipe: this is its end.
    _exit(0);
  }
}

}  // namespace ferry
