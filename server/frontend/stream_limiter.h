#pragma once

#include <atomic>
#include <utility>

namespace ferry {

// Counts the streaming calls of a server and bounds them: each holds a thread
// as long as its client likes, and unary calls must find one.
//
// Threads: thread-safe. It must outlive its tickets.
class StreamLimiter {
 public:
  // The right to hold a stream open; given back by the destructor. Converts to
  // false when there was no place.
  class Ticket {
   public:
    Ticket(Ticket&& other) noexcept
        : limiter_(std::exchange(other.limiter_, nullptr)) {}
    Ticket& operator=(Ticket&&) = delete;
    ~Ticket() {
      if (limiter_ != nullptr) --limiter_->open_;
    }
    explicit operator bool() const { return limiter_ != nullptr; }

   private:
    friend class StreamLimiter;
    explicit Ticket(StreamLimiter* limiter) : limiter_(limiter) {}

    StreamLimiter* limiter_;
  };

  explicit StreamLimiter(int limit) : limit_(limit) {}
  StreamLimiter(const StreamLimiter&) = delete;
  StreamLimiter& operator=(const StreamLimiter&) = delete;

  Ticket enter() {
    if (++open_ <= limit_) return Ticket(this);
    --open_;
    return Ticket(nullptr);
  }

  int limit() const { return limit_; }
  int open() const { return open_; }

 private:
  const int limit_;
  std::atomic<int> open_{0};
};

}  // namespace ferry
