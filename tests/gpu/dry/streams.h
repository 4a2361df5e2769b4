#pragma once

#include <cuda_runtime_api.h>

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <thread>
#include <vector>

#include "platform/base/mutex.h"

namespace ferry::dry {

// That work of a stream is done. Read and written by Streams only.
struct Completion {
  bool is_done = false;
  std::chrono::steady_clock::time_point time;
};
using CompletionPtr = std::shared_ptr<Completion>;

// The streams and events of all devices. Each device has a thread that does
// what its streams were given: the work of one stream in its order, and that of
// several as it becomes ready. Nothing is done by the thread that gives it.
//
// A device's default stream waits for its blocking streams and they for it, as
// CUDA's legacy default stream.
//
// Handles are numbers that are never given twice: one that was destroyed stays
// unknown.
//
// Threads: thread-safe. The devices' threads end with the process; a Streams
// is never destroyed.
class Streams {
 public:
  struct Work {
    // Called once, without locks; may be empty.
    std::function<void()> run;
    // Asked again and again, with the lock: whether it can run. Empty: yes.
    std::function<bool()> is_ready;
    // What must be done first.
    std::vector<CompletionPtr> after;
  };

  explicit Streams(int devices);
  Streams(const Streams&) = delete;
  Streams& operator=(const Streams&) = delete;

  // --- Streams

  cudaStream_t create(int device, unsigned flags, int priority)
      EXCLUDES_LOCK(mutex_);
  bool destroy(cudaStream_t stream) EXCLUDES_LOCK(mutex_);
  // Its device; `current` for the default stream; -1 when there is no such
  // stream.
  int device_of(cudaStream_t stream, int current) const EXCLUDES_LOCK(mutex_);
  bool flags_of(cudaStream_t stream, unsigned* flags, int* priority) const
      EXCLUDES_LOCK(mutex_);

  // The stream must be known; null is the default stream of `device`.
  CompletionPtr give(cudaStream_t stream, int device, Work work)
      EXCLUDES_LOCK(mutex_);
  // Of what the stream was given last.
  CompletionPtr last(cudaStream_t stream, int device) EXCLUDES_LOCK(mutex_);
  // Of what all streams of the device were given last.
  std::vector<CompletionPtr> last_of(int device) EXCLUDES_LOCK(mutex_);

  bool is_done(const CompletionPtr& completion) const EXCLUDES_LOCK(mutex_);
  void wait(const std::vector<CompletionPtr>& completions)
      EXCLUDES_LOCK(mutex_);
  // Has the devices' threads ask is_ready() again.
  void look_again() EXCLUDES_LOCK(mutex_);

  // --- Events

  struct Event {
    int device = 0;
    bool is_timed = false;
    // Of its latest record; null before the first.
    CompletionPtr record;
  };

  cudaEvent_t create_event(int device, bool is_timed) EXCLUDES_LOCK(mutex_);
  bool destroy_event(cudaEvent_t event) EXCLUDES_LOCK(mutex_);
  // False when there is no such event.
  bool find_event(cudaEvent_t event, Event* found) const EXCLUDES_LOCK(mutex_);
  void record(cudaEvent_t event, cudaStream_t stream, int device)
      EXCLUDES_LOCK(mutex_);

  size_t streams() const EXCLUDES_LOCK(mutex_);
  size_t events() const EXCLUDES_LOCK(mutex_);

 private:
  struct Item {
    Work work;
    CompletionPtr done;
  };
  struct Stream {
    int device = 0;
    unsigned flags = 0;
    int priority = 0;
    std::deque<Item> queue;
    bool is_destroyed = false;
    CompletionPtr last;
  };
  struct Device {
    std::shared_ptr<Stream> default_stream;
    std::vector<std::shared_ptr<Stream>> streams;
    size_t next = 0;  // Whose turn it is.
    std::thread thread;
  };

  Stream* find(cudaStream_t stream, int device) const REQUIRES_LOCK(mutex_);
  CompletionPtr push(Stream* stream, Work work) REQUIRES_LOCK(mutex_);
  void serve(Device* device) EXCLUDES_LOCK(mutex_);
  std::shared_ptr<Stream> pick(Device* device, bool* must_poll)
      REQUIRES_LOCK(mutex_);

  mutable Mutex mutex_;
  // Something was given or done.
  CondVar work_;
  CondVar done_;
  std::vector<Device> devices_ GUARDED_BY(mutex_);
  std::map<cudaStream_t, std::shared_ptr<Stream>> streams_ GUARDED_BY(mutex_);
  std::map<cudaEvent_t, Event> events_ GUARDED_BY(mutex_);
  uint64_t last_handle_ GUARDED_BY(mutex_) = 0xd00000000;
};

}  // namespace ferry::dry
