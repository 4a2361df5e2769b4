#pragma once

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/string_view.h"
#include "platform/base/clock.h"
#include "platform/base/mutex.h"
#include "platform/os/unique_fd.h"
#include "server/supervisor/line_budget.h"
#include "server/supervisor/line_splitter.h"
#include "server/supervisor/log_tail.h"

namespace ferry {

// Reads what all workers write to stdout and stderr, on one thread, so that no
// worker ever waits for a full pipe.
//
// Lines that come faster than LineBudget allows are dropped and counted; the
// tail gets them all.
//
// Ownership: `clock` and what `sink` uses must outlive it.
// Threads: thread-safe; the sink runs on the drain's thread.
// Errors: a pipe that cannot be read counts as ended.
class LogDrain {
 public:
  // Which worker wrote a line.
  struct Source {
    std::string pipeline;
    int rank = 0;
  };
  using Sink =
      std::function<void(const Source& source, absl::string_view line)>;

  LogDrain(Sink sink, const Clock& clock);
  // Reads what is there, and forgets the pipes.
  ~LogDrain();
  LogDrain(const LogDrain&) = delete;
  LogDrain& operator=(const LogDrain&) = delete;

  // Reads from `pipe` until its end. Returns the tail, which is closed then.
  std::shared_ptr<LogTail> add(Source source, UniqueFd pipe)
      EXCLUDES_LOCK(mutex_);

 private:
  struct Stream {
    Source source;
    UniqueFd pipe;
    std::shared_ptr<LogTail> tail;
    LineSplitter splitter;
    LineBudget budget;
  };

  void run() EXCLUDES_LOCK(mutex_);
  // Reads once. False: the stream has ended.
  bool read_some(Stream& stream);
  void take_line(Stream& stream, std::string line);
  void report_dropped(Stream& stream);

  const Sink sink_;
  const Clock& clock_;
  // Wakes the thread: a stream was added, or the end.
  const UniqueFd wake_;
  Mutex mutex_;
  std::vector<std::unique_ptr<Stream>> added_ GUARDED_BY(mutex_);
  bool stopping_ GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace ferry
