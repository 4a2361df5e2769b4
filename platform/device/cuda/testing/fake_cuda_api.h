#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/string_view.h"
#include "platform/base/mutex.h"
#include "platform/device/cuda/cuda_api.h"

namespace ferry {

// CUDA without a GPU: device memory is the host's, and streams are queues that
// are carried out by whoever waits for them.
//
// - Work is done as soon as it is given (kEager), or as late as can be (kLazy):
//   when somebody synchronizes with it, and then only what he waits for. Work
//   that needs a wait which is not there shows by its bytes in one of the two,
//   or with run_available().
// - Memory holds 0xFF until something is copied there.
// - Copies of host memory that is neither registered nor allocated by CUDA are
//   `pageable_copies`; one that reaches from one registration into the next
//   fails, and so does writing to what was registered read-only.
// - What CUDA passes over, misuses() tells: work on a thread that has set no
//   device, which goes to device 0 and makes a context there; a wait that
//   spins, since neither the event nor the context says that it shall sleep.
//   A stream or event of another device than the thread's is an invalid handle.
//   Host memory is registered once, and in whole pages.
// - Calls are counted by name and logged; any can be made to fail or to do
//   something first. A call that fails does nothing. Last errors belong to
//   threads; every later call on a device returns a sticky one.
// - What is not given back, leaks() tells.
//
// Without a log, eager streams and events allocate no memory. Thread-safe.
class FakeCudaApi final : public CudaApi {
 public:
  enum class Execution { kEager, kLazy };

  // What the machine is like. To be set before it is used.
  struct Machine {
    int driver_version = 13000;
    int runtime_version = 13000;
    int devices = 1;
    size_t memory_bytes = size_t{1} << 30;
    bool can_register = true;
    bool can_register_read_only = true;
    std::string pci_bus_id = "0000:65:00.0";
  };

  explicit FakeCudaApi(Execution execution = Execution::kEager)
      : execution_(execution) {}
  ~FakeCudaApi() override;

  Machine& machine() { return machine_; }

  // --- Faults

  // Lets the `nth` call from now on, counted from 1, of `call`, as in
  // "host_register", fail with `error`. A sticky error fails every later call,
  // and is never forgotten. An empty name is any call.
  void fail(absl::string_view call, int64_t nth, cudaError_t error,
            bool sticky = false) EXCLUDES_LOCK(mutex_);
  void clear_faults() EXCLUDES_LOCK(mutex_);
  // Called, without locks, before a call is carried out: to make it slow, or to
  // look at it.
  void set_observer(std::function<void(absl::string_view)> observer)
      EXCLUDES_LOCK(mutex_);

  // --- What happened

  // Calls since the start.
  int64_t calls(absl::string_view call) const EXCLUDES_LOCK(mutex_);
  int64_t all_calls() const EXCLUDES_LOCK(mutex_);
  void start_log() EXCLUDES_LOCK(mutex_);
  // "memcpy_async 4096 h2d stream1"; streams are numbered as they are made, and
  // the default stream is stream0.
  std::vector<std::string> log() const EXCLUDES_LOCK(mutex_);
  int64_t pageable_copies() const EXCLUDES_LOCK(mutex_);
  // The priority that a stream was made with.
  int priority(cudaStream_t stream) const EXCLUDES_LOCK(mutex_);
  // In the order in which they were made; only those that live.
  std::vector<cudaStream_t> streams() const EXCLUDES_LOCK(mutex_);
  // Bytes that are registered now.
  size_t registered_bytes() const EXCLUDES_LOCK(mutex_);
  // What streams were given and have not done yet.
  size_t pending_work() const EXCLUDES_LOCK(mutex_);
  // What CUDA does when the process ends.
  void forget_registrations() EXCLUDES_LOCK(mutex_);
  // Devices on which there are contexts, in order.
  std::vector<int> contexts() const EXCLUDES_LOCK(mutex_);
  // The device that the calling thread has set; −1 for none.
  int current_device() const EXCLUDES_LOCK(mutex_);
  // "free on a thread without a device", in the order in which they came.
  std::vector<std::string> misuses() const EXCLUDES_LOCK(mutex_);
  // What was made and not given back, in words; empty for nothing.
  std::string leaks() const EXCLUDES_LOCK(mutex_);

  // Carries out what the stream was given, up to a wait for what is not done.
  void run_available(cudaStream_t stream) EXCLUDES_LOCK(mutex_);

  // --- CudaApi

  cudaError_t driver_get_version(int* version) override;
  cudaError_t runtime_get_version(int* version) override;
  cudaError_t get_device_count(int* count) override;
  cudaError_t device_get_attribute(int* value, cudaDeviceAttr attribute,
                                   int device) override;
  cudaError_t device_get_pci_bus_id(char* id, int length, int device) override;
  cudaError_t init_device(int device, unsigned device_flags,
                          unsigned flags) override;
  cudaError_t set_device(int device) override;
  cudaError_t device_synchronize() override;
  cudaError_t mem_get_info(size_t* free, size_t* total) override;
  cudaError_t malloc(void** data, size_t bytes) override;
  cudaError_t free(void* data) override;
  cudaError_t host_alloc(void** data, size_t bytes, unsigned flags) override;
  cudaError_t free_host(void* data) override;
  cudaError_t host_register(void* data, size_t bytes, unsigned flags) override;
  cudaError_t host_unregister(void* data) override;
  cudaError_t device_get_stream_priority_range(int* least,
                                               int* greatest) override;
  cudaError_t stream_create_with_priority(cudaStream_t* stream, unsigned flags,
                                          int priority) override;
  cudaError_t stream_destroy(cudaStream_t stream) override;
  cudaError_t stream_synchronize(cudaStream_t stream) override;
  cudaError_t stream_wait_event(cudaStream_t stream,
                                cudaEvent_t event) override;
  cudaError_t memcpy_async(void* destination, const void* source, size_t bytes,
                           cudaMemcpyKind kind, cudaStream_t stream) override;
  cudaError_t launch_host_func(cudaStream_t stream, cudaHostFn_t function,
                               void* data) override;
  cudaError_t event_create_with_flags(cudaEvent_t* event,
                                      unsigned flags) override;
  cudaError_t event_destroy(cudaEvent_t event) override;
  cudaError_t event_record(cudaEvent_t event, cudaStream_t stream) override;
  cudaError_t event_query(cudaEvent_t event) override;
  cudaError_t event_synchronize(cudaEvent_t event) override;
  cudaError_t event_elapsed_time(float* milliseconds, cudaEvent_t start,
                                 cudaEvent_t end) override;
  cudaError_t get_last_error() override;
  cudaError_t peek_at_last_error() override;
  const char* get_error_name(cudaError_t error) override;
  const char* get_error_string(cudaError_t error) override;

 private:
  struct StreamState;

  struct EventState {
    int device = 0;
    bool is_timed = false;
    // Whoever waits for it sleeps.
    bool is_blocking = false;
    // Of records, 0 for none: given to a stream, and carried out.
    int64_t recorded = 0;
    int64_t completed = 0;
    // Of the latest record; null is the default stream.
    StreamState* stream = nullptr;
  };

  struct Work {
    enum Kind { kCopy, kHostFunction, kRecord, kWait };
    Kind kind = kCopy;
    void* destination = nullptr;
    const void* source = nullptr;
    size_t bytes = 0;
    cudaHostFn_t function = nullptr;
    // kRecord, kWait: the event and which of its records.
    EventState* event = nullptr;
    int64_t record = 0;
    StreamState* recorded_on = nullptr;
  };

  struct StreamState {
    int number = 0;
    int device = 0;
    int priority = 0;
    std::deque<Work> work;
  };

  struct Registration {
    size_t bytes = 0;
    bool is_read_only = false;
  };

  struct Fault {
    std::string call;
    int64_t remaining = 0;
    cudaError_t error = cudaSuccess;
    bool is_sticky = false;
  };

  // What every call does first: its fault, or cudaSuccess.
  cudaError_t enter(const char* call, const std::string& details = "")
      EXCLUDES_LOCK(mutex_);
  // The same for what works with the thread's device.
  cudaError_t enter_device(const char* call, const std::string& details = "")
      EXCLUDES_LOCK(mutex_);
  cudaError_t failed(cudaError_t error) REQUIRES_LOCK(mutex_);
  int device_of_thread() const REQUIRES_LOCK(mutex_);
  void make_context(int device, unsigned flags) REQUIRES_LOCK(mutex_);
  // The calling thread waits in `call`.
  void check_wait(const char* call, bool is_blocking_event)
      REQUIRES_LOCK(mutex_);
  bool is_logging() const EXCLUDES_LOCK(mutex_);
  StreamState* stream_of(cudaStream_t stream) REQUIRES_LOCK(mutex_);
  EventState* event_of(cudaEvent_t event) const REQUIRES_LOCK(mutex_);
  std::string name_of(cudaStream_t stream) EXCLUDES_LOCK(mutex_);
  void give(cudaStream_t stream, const Work& work) REQUIRES_LOCK(mutex_);
  void run(const Work& work) REQUIRES_LOCK(mutex_);
  void run_all(StreamState* stream) REQUIRES_LOCK(mutex_);
  void run_until(StreamState* stream, const EventState* event, int64_t record)
      REQUIRES_LOCK(mutex_);
  void run_next(StreamState* stream) REQUIRES_LOCK(mutex_);
  cudaError_t check_host_side(const void* data, size_t bytes, bool writes)
      REQUIRES_LOCK(mutex_);

  const Execution execution_;
  Machine machine_;

  mutable Mutex mutex_;
  std::function<void(absl::string_view)> observer_ GUARDED_BY(mutex_);
  std::vector<Fault> faults_ GUARDED_BY(mutex_);
  cudaError_t sticky_error_ GUARDED_BY(mutex_) = cudaSuccess;
  std::map<std::thread::id, cudaError_t> last_errors_ GUARDED_BY(mutex_);
  std::map<std::thread::id, int> current_devices_ GUARDED_BY(mutex_);
  // The flags that they were made with, by device.
  std::map<int, unsigned> contexts_ GUARDED_BY(mutex_);
  std::vector<std::string> misuses_ GUARDED_BY(mutex_);
  std::map<std::string, int64_t, std::less<>> calls_ GUARDED_BY(mutex_);
  int64_t all_calls_ GUARDED_BY(mutex_) = 0;
  bool is_logging_ GUARDED_BY(mutex_) = false;
  std::vector<std::string> log_ GUARDED_BY(mutex_);
  int64_t pageable_copies_ GUARDED_BY(mutex_) = 0;

  std::map<void*, size_t> device_memory_ GUARDED_BY(mutex_);
  std::map<const void*, size_t> host_memory_ GUARDED_BY(mutex_);
  std::map<const void*, Registration> registered_ GUARDED_BY(mutex_);
  StreamState default_stream_ GUARDED_BY(mutex_);
  std::map<int, std::unique_ptr<StreamState>> streams_ GUARDED_BY(mutex_);
  std::map<const void*, std::unique_ptr<EventState>> events_ GUARDED_BY(mutex_);
  int last_stream_ GUARDED_BY(mutex_) = 0;
};

}  // namespace ferry
