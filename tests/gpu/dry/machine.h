#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <functional>
#include <map>
#include <set>
#include <string>

#include "platform/base/mutex.h"
#include "tests/gpu/dry/fault_plan.h"
#include "tests/gpu/dry/memory.h"
#include "tests/gpu/dry/options.h"
#include "tests/gpu/dry/report.h"
#include "tests/gpu/dry/streams.h"

namespace ferry::dry {

// What CUDA keeps for each thread.
struct Thread {
  int device = 0;
  bool has_set_device = false;
  // Runs a host function of a stream.
  bool is_callback = false;
  cudaError_t last_error = cudaSuccess;
  // How the work that the call at hand gives to a stream shall fail.
  FaultPlan::Fault late_fault;
};
Thread& this_thread();

// The devices' contexts of this process, and the errors that do not go away.
//
// Threads: thread-safe.
class Contexts {
 public:
  Contexts(const Options& options, Report* report, DeviceMemory* memory)
      : options_(options), report_(*report), memory_(*memory) {}

  // Makes the device's context for `call`, if there is none. The device's
  // sticky error; cudaErrorDevicesUnavailable: this process has contexts
  // enough.
  cudaError_t use(int device, const char* call) EXCLUDES_LOCK(mutex_);
  // The same for a device that the call names: nothing is implicit then.
  cudaError_t init(int device, const char* call) EXCLUDES_LOCK(mutex_);
  bool exists(int device) const EXCLUDES_LOCK(mutex_);
  // From now on all calls on the device fail.
  void fail(int device, cudaError_t error) EXCLUDES_LOCK(mutex_);
  cudaError_t sticky_error(int device) const EXCLUDES_LOCK(mutex_);

 private:
  cudaError_t make(int device, const char* call, bool is_named)
      EXCLUDES_LOCK(mutex_);

  const Options& options_;
  Report& report_;
  DeviceMemory& memory_;
  mutable Mutex mutex_;
  std::set<int> made_ GUARDED_BY(mutex_);
  std::map<int, cudaError_t> sticky_ GUARDED_BY(mutex_);
};

// All that stands for the machine's GPUs. One for each process; it is never
// destroyed.
struct Machine {
  Machine();

  const Options options;
  Report report;
  FaultPlan faults;
  DeviceMemory device_memory;
  HostMemory host_memory;
  Streams streams;
  Contexts contexts;
};
Machine& machine();

// --- What every call of CUDA does

enum class Needs {
  kNothing,
  // The current device's context, which the call makes.
  kContext,
};

// Before the call: what it fails with at once, or cudaSuccess.
cudaError_t begin_call(const char* name, Needs needs);
// After it: keeps the error as the thread's last one.
cudaError_t end_call(cudaError_t error);

template <typename Function>
cudaError_t call(const char* name, Needs needs, const Function& function) {
  cudaError_t error = begin_call(name, needs);
  if (error == cudaSuccess) error = function();
  return end_call(error);
}

// Reports a broken rule, and is `error`.
cudaError_t refuse(const char* rule, const char* call,
                   const std::string& detail, cudaError_t error);

// Starts a kernel that does nothing. `stream` must be of the current device.
cudaError_t launch(const char* call, cudaStream_t stream);

// The work `run` with the fault of the call at hand: late, or never.
Streams::Work faulty(int device, std::function<void()> run);

}  // namespace ferry::dry
