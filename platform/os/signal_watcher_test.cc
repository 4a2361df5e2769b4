#include "platform/os/signal_watcher.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <vector>

#include "gtest/gtest.h"
#include "platform/base/mutex.h"

namespace ferry {
namespace {

class Received {
 public:
  void add(int signal) {
    MutexLock lock(&mutex_);
    signals_.push_back(signal);
    changed_.notify_all();
  }

  // Blocks until there are `count`; fewer after half a minute.
  std::vector<int> wait_for(size_t count) {
    MutexLock lock(&mutex_);
    while (signals_.size() < count &&
           changed_.wait_for(&mutex_, std::chrono::seconds(30))) {
    }
    return signals_;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  std::vector<int> signals_ GUARDED_BY(mutex_);
};

TEST(SignalWatcherTest, CallsBackForEachSignal) {
  Received received;
  auto watcher = SignalWatcher::create(
      {SIGTERM, SIGINT}, [&](int signal) { received.add(signal); });
  ASSERT_TRUE(watcher.ok()) << watcher.status();
  kill(getpid(), SIGTERM);
  EXPECT_EQ(received.wait_for(1), std::vector<int>{SIGTERM});
  kill(getpid(), SIGINT);
  EXPECT_EQ(received.wait_for(2), (std::vector<int>{SIGTERM, SIGINT}));
}

TEST(SignalWatcherTest, UnblocksAtTheEnd) {
  {
    auto watcher = SignalWatcher::create({SIGUSR1}, [](int) {});
    ASSERT_TRUE(watcher.ok()) << watcher.status();
  }
  sigset_t mask;
  pthread_sigmask(SIG_SETMASK, nullptr, &mask);
  EXPECT_FALSE(sigismember(&mask, SIGUSR1));
}

TEST(SignalWatcherTest, IgnoresBrokenPipes) {
  auto watcher = SignalWatcher::create({SIGTERM}, [](int) {});
  ASSERT_TRUE(watcher.ok()) << watcher.status();
  int fds[2];
  ASSERT_EQ(pipe2(fds, O_CLOEXEC), 0);
  close(fds[0]);
  EXPECT_EQ(write(fds[1], "x", 1), -1);
  EXPECT_EQ(errno, EPIPE);
  close(fds[1]);
}

}  // namespace
}  // namespace ferry
