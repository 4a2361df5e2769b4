#include "tests/gpu/dry/machine.h"

#include <pthread.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <utility>

namespace ferry::dry {
namespace {

// CUDA does not work in a child that a process forks after its first call.
std::atomic<bool>& is_forked() {
  static std::atomic<bool> forked{false};
  return forked;
}

void finish() {
  Machine& all = machine();
  if (is_forked()) return;
  if (const size_t left = all.host_memory.registrations(); left > 0) {
    all.report.broke("registration_leaked", "exit",
                     std::to_string(left) + " ranges are registered");
    all.report.count("registrations_leaked", static_cast<int64_t>(left));
  }
  all.report.finish();
}

}  // namespace

Thread& this_thread() {
  thread_local Thread thread;
  return thread;
}

cudaError_t Contexts::use(int device, const char* call) {
  return make(device, call, this_thread().has_set_device);
}

cudaError_t Contexts::init(int device, const char* call) {
  return make(device, call, /*is_named=*/true);
}

cudaError_t Contexts::make(int device, const char* call, bool is_named) {
  MutexLock lock(&mutex_);
  const auto sticky = sticky_.find(device);
  if (sticky != sticky_.end()) return sticky->second;
  if (made_.count(device) > 0) return cudaSuccess;
  if (options_.max_contexts > 0 &&
      made_.size() >= static_cast<size_t>(options_.max_contexts)) {
    report_.broke("foreign_context", call,
                  "would make a context on device " + std::to_string(device) +
                      ", and has " + std::to_string(made_.size()));
    return cudaErrorDevicesUnavailable;
  }
  if (!is_named) {
    report_.broke("implicit_context", call,
                  "makes a context on device 0 in a thread that set no device");
  }
  void* taken = nullptr;
  if (options_.context_bytes > 0 &&
      memory_.allocate(device, options_.context_bytes, &taken) != cudaSuccess) {
    return cudaErrorMemoryAllocation;
  }
  made_.insert(device);
  report_.count("contexts");
  return cudaSuccess;
}

bool Contexts::exists(int device) const {
  MutexLock lock(&mutex_);
  return made_.count(device) > 0;
}

void Contexts::fail(int device, cudaError_t error) {
  MutexLock lock(&mutex_);
  sticky_.emplace(device, error);
}

cudaError_t Contexts::sticky_error(int device) const {
  MutexLock lock(&mutex_);
  const auto found = sticky_.find(device);
  return found == sticky_.end() ? cudaSuccess : found->second;
}

Machine::Machine()
    : options(read_options()),
      report(options.log),
      device_memory(options.devices, options.memory_bytes),
      host_memory(options.registers_read_only),
      streams(options.devices),
      contexts(options, &report, &device_memory) {
  if (!faults.set(options.faults)) {
    std::fprintf(stderr, "dry CUDA: FERRY_DRY_CUDA_FAULTS is \"%s\"\n",
                 options.faults.c_str());
    std::abort();
  }
  ::pthread_atfork(nullptr, nullptr, [] { is_forked() = true; });
  std::atexit(finish);
}

Machine& machine() {
  static Machine* const kMachine = new Machine;
  return *kMachine;
}

cudaError_t begin_call(const char* name, Needs needs) {
  Machine& all = machine();
  Thread& thread = this_thread();
  all.report.count(name);
  if (is_forked()) {
    return refuse("used_after_fork", name, "", cudaErrorInitializationError);
  }
  if (thread.is_callback) {
    return refuse("call_in_host_function", name, "", cudaErrorNotPermitted);
  }
  thread.late_fault = {};
  const FaultPlan::Fault fault = all.faults.next(name, thread.device);
  if (fault.kind == FaultPlan::Fault::Kind::kError) {
    return static_cast<cudaError_t>(fault.error);
  }
  thread.late_fault = fault;
  if (needs == Needs::kNothing) return cudaSuccess;
  if (all.options.devices == 0) return cudaErrorNoDevice;
  return all.contexts.use(thread.device, name);
}

cudaError_t end_call(cudaError_t error) {
  if (error != cudaSuccess) this_thread().last_error = error;
  return error;
}

cudaError_t refuse(const char* rule, const char* call,
                   const std::string& detail, cudaError_t error) {
  machine().report.broke(rule, call, detail);
  return error;
}

Streams::Work faulty(int device, std::function<void()> run) {
  const FaultPlan::Fault fault = this_thread().late_fault;
  Streams::Work work;
  if (fault.kind == FaultPlan::Fault::Kind::kHang) {
    work.is_ready = [] { return false; };
  } else if (fault.kind == FaultPlan::Fault::Kind::kLate) {
    work.run = [device, fault] {
      machine().contexts.fail(device, static_cast<cudaError_t>(fault.error));
    };
  } else {
    work.run = std::move(run);
  }
  return work;
}

cudaError_t launch(const char* call, cudaStream_t stream) {
  Machine& all = machine();
  const int device = this_thread().device;
  const int of = all.streams.device_of(stream, device);
  if (of < 0) {
    return refuse("stream_unknown", call, "", cudaErrorInvalidResourceHandle);
  }
  if (of != device) {
    return refuse("launch_on_other_device", call,
                  "the stream is of device " + std::to_string(of) +
                      ", the current one is " + std::to_string(device),
                  cudaErrorInvalidResourceHandle);
  }
  all.report.count("launches");
  Streams::Work work = faulty(device, nullptr);
  if (all.options.kernel_us > 0 && !work.run && !work.is_ready) {
    const auto length = std::chrono::microseconds(all.options.kernel_us);
    // It begins when its stream has come there.
    auto begin = std::make_shared<std::chrono::steady_clock::time_point>();
    work.is_ready = [begin, length] {
      const auto now = std::chrono::steady_clock::now();
      if (*begin == std::chrono::steady_clock::time_point()) *begin = now;
      return now - *begin >= length;
    };
  }
  // What takes no time, and cannot fail, needs no place in the stream.
  if (work.run || work.is_ready) {
    all.streams.give(stream, device, std::move(work));
  }
  return cudaSuccess;
}

}  // namespace ferry::dry
