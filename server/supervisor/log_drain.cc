#include "server/supervisor/log_drain.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"

namespace ferry {
namespace {

constexpr size_t kReadBytes = size_t{64} << 10;

}  // namespace

LogDrain::LogDrain(Sink sink, const Clock& clock)
    : sink_(std::move(sink)),
      clock_(clock),
      wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      thread_([this] { run(); }) {}

LogDrain::~LogDrain() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
  }
  eventfd_write(wake_.get(), 1);
  thread_.join();
}

std::shared_ptr<LogTail> LogDrain::add(Source source, UniqueFd pipe) {
  fcntl(pipe.get(), F_SETFL, fcntl(pipe.get(), F_GETFL) | O_NONBLOCK);
  auto stream = std::make_unique<Stream>();
  stream->source = std::move(source);
  stream->pipe = std::move(pipe);
  stream->tail = std::make_shared<LogTail>();
  std::shared_ptr<LogTail> tail = stream->tail;
  {
    MutexLock lock(&mutex_);
    added_.push_back(std::move(stream));
  }
  eventfd_write(wake_.get(), 1);
  return tail;
}

void LogDrain::run() {
  std::vector<std::unique_ptr<Stream>> streams;
  bool stopping = false;
  while (!stopping) {
    std::vector<pollfd> fds = {{wake_.get(), POLLIN, 0}};
    for (const auto& stream : streams) {
      fds.push_back({stream->pipe.get(), POLLIN, 0});
    }
    if (poll(fds.data(), fds.size(), -1) < 0) continue;
    for (size_t i = 0; i < streams.size(); ++i) {
      if (fds[i + 1].revents != 0 && !read_some(*streams[i])) {
        streams[i].reset();
      }
    }
    streams.erase(std::remove(streams.begin(), streams.end(), nullptr),
                  streams.end());
    if (fds[0].revents == 0) continue;
    eventfd_t ignored;
    eventfd_read(wake_.get(), &ignored);
    MutexLock lock(&mutex_);
    for (auto& stream : added_) streams.push_back(std::move(stream));
    added_.clear();
    stopping = stopping_;
  }
  for (auto& stream : streams) {
    read_some(*stream);
    stream->tail->close();
  }
}

bool LogDrain::read_some(Stream& stream) {
  char buffer[kReadBytes];
  const ssize_t size = read(stream.pipe.get(), buffer, sizeof(buffer));
  if (size < 0 && (errno == EAGAIN || errno == EINTR)) return true;
  const auto sink = [&](std::string line) {
    take_line(stream, std::move(line));
  };
  if (size > 0) {
    stream.splitter.add(absl::string_view(buffer, static_cast<size_t>(size)),
                        sink);
    return true;
  }
  stream.splitter.finish(sink);
  report_dropped(stream);
  stream.tail->close();
  return false;
}

void LogDrain::take_line(Stream& stream, std::string line) {
  if (stream.budget.take(clock_.monotonic())) {
    report_dropped(stream);
    sink_(stream.source, line);
  }
  stream.tail->add(std::move(line));
}

void LogDrain::report_dropped(Stream& stream) {
  const int64_t dropped = stream.budget.take_dropped();
  if (dropped == 0) return;
  sink_(stream.source, absl::StrCat("(", dropped, " lines dropped)"));
}

}  // namespace ferry
