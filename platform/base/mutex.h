#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

// Clang's thread-safety annotations, checked with -Wthread-safety.
#if defined(__clang__)
#define FERRY_TSA(x) __attribute__((x))
#else
#define FERRY_TSA(x)
#endif

// On a member: read and written only with the mutex held. Abseil's internal
// header defines the same.
#ifndef GUARDED_BY
#define GUARDED_BY(mu) FERRY_TSA(guarded_by(mu))
#endif
// On a function: the caller holds the mutex.
#define REQUIRES_LOCK(...) FERRY_TSA(requires_capability(__VA_ARGS__))
// On a function: the caller does not hold the mutex.
#define EXCLUDES_LOCK(...) FERRY_TSA(locks_excluded(__VA_ARGS__))

namespace ferry {

// A mutex that clang checks the use of.
//
// It wraps std::mutex, which ThreadSanitizer understands without an
// instrumented library. Thread-safe; not recursive.
class FERRY_TSA(capability("mutex")) Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  void lock() FERRY_TSA(acquire_capability()) { mutex_.lock(); }
  void unlock() FERRY_TSA(release_capability()) { mutex_.unlock(); }
  // Tells the analysis that the caller holds the mutex; for predicates.
  void assert_held() const FERRY_TSA(assert_capability(this)) {}

 private:
  friend class CondVar;
  std::mutex mutex_;
};

// Holds a Mutex for a scope.
class FERRY_TSA(scoped_lockable) MutexLock {
 public:
  explicit MutexLock(Mutex* mutex) FERRY_TSA(acquire_capability(mutex))
      : mutex_(mutex) {
    mutex_->lock();
  }
  ~MutexLock() FERRY_TSA(release_capability()) { mutex_->unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex* const mutex_;
};

// Gives a Mutex that the caller holds up for a scope. The mutex is held again
// after it, also when an exception ends the scope.
class FERRY_TSA(scoped_lockable) MutexUnlock {
 public:
  explicit MutexUnlock(Mutex* mutex) FERRY_TSA(release_capability(mutex))
      : mutex_(mutex) {
    mutex_->unlock();
  }
  ~MutexUnlock() FERRY_TSA(release_capability()) { mutex_->lock(); }
  MutexUnlock(const MutexUnlock&) = delete;
  MutexUnlock& operator=(const MutexUnlock&) = delete;

 private:
  Mutex* const mutex_;
};

// A condition variable for a Mutex. Waits may end early: callers loop.
class CondVar {
 public:
  CondVar() = default;
  CondVar(const CondVar&) = delete;
  CondVar& operator=(const CondVar&) = delete;

  // Blocks until notified. The caller holds `mutex`, which clang checks.
  void wait(Mutex* mutex) REQUIRES_LOCK(mutex) {
    std::unique_lock<std::mutex> lock(mutex->mutex_, std::adopt_lock);
    condition_.wait(lock);
    lock.release();
  }

  // Blocks until notified or until `timeout` has passed. Returns false when
  // the time ran out. The caller holds `mutex`.
  bool wait_for(Mutex* mutex, std::chrono::nanoseconds timeout)
      REQUIRES_LOCK(mutex) {
    std::unique_lock<std::mutex> lock(mutex->mutex_, std::adopt_lock);
    const bool notified =
        condition_.wait_for(lock, timeout) == std::cv_status::no_timeout;
    lock.release();
    return notified;
  }

  void notify_one() { condition_.notify_one(); }
  void notify_all() { condition_.notify_all(); }

 private:
  std::condition_variable condition_;
};

}  // namespace ferry
