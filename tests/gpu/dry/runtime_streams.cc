// CUDA's runtime: streams, their host functions, and events.

#include <cuda_runtime_api.h>

#include <chrono>
#include <string>
#include <utility>

#include "tests/gpu/dry/machine.h"

namespace ferry::dry {
namespace {

cudaError_t unknown_stream(const char* name) {
  return refuse("stream_unknown", name, "", cudaErrorInvalidResourceHandle);
}

cudaError_t unknown_event(const char* name) {
  return refuse("event_unknown", name, "", cudaErrorInvalidResourceHandle);
}

// Runs `function` as a stream does: it must not call CUDA.
template <typename Function>
void run_callback(const Function& function) {
  Thread& thread = this_thread();
  thread.is_callback = true;
  function();
  thread.is_callback = false;
}

cudaError_t record(const char* name, cudaEvent_t event, cudaStream_t stream) {
  Machine& all = machine();
  Streams::Event found;
  if (!all.streams.find_event(event, &found)) return unknown_event(name);
  const int device = all.streams.device_of(stream, this_thread().device);
  if (device < 0) return unknown_stream(name);
  if (device != found.device) {
    return refuse("event_on_other_device", name,
                  "an event of device " + std::to_string(found.device) +
                      ", a stream of device " + std::to_string(device),
                  cudaErrorInvalidResourceHandle);
  }
  all.report.count("event_records");
  all.streams.record(event, stream, device);
  return cudaSuccess;
}

// Two events between which CUDA tells no time, and the rule that says so.
const char* untimed(const Streams::Event& start, const Streams::Event& end) {
  if (!start.is_timed || !end.is_timed) return "elapsed_untimed";
  if (start.device != end.device) return "elapsed_of_two_devices";
  if (start.record == nullptr || end.record == nullptr) {
    return "elapsed_unrecorded";
  }
  return nullptr;
}

cudaError_t add_host_function(const char* name, cudaStream_t stream,
                              std::function<void()> function) {
  Machine& all = machine();
  const int device = all.streams.device_of(stream, this_thread().device);
  if (device < 0) return unknown_stream(name);
  all.streams.give(stream, device,
                   faulty(device, [function = std::move(function)] {
                     run_callback(function);
                   }));
  return cudaSuccess;
}

}  // namespace
}  // namespace ferry::dry

using namespace ferry::dry;  // NOLINT: what follows is CUDA's interface.

extern "C" {

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags,
                                         int priority) {
  return call("cudaStreamCreateWithPriority", Needs::kContext, [&] {
    *stream = machine().streams.create(this_thread().device, flags, priority);
    return cudaSuccess;
  });
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return cudaStreamCreateWithPriority(stream, flags, 0);
}

cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  return cudaStreamCreateWithPriority(stream, cudaStreamDefault, 0);
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  return call("cudaStreamDestroy", Needs::kContext, [&] {
    return machine().streams.destroy(stream)
               ? cudaSuccess
               : unknown_stream("cudaStreamDestroy");
  });
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  return call("cudaStreamSynchronize", Needs::kContext, [&] {
    Machine& all = machine();
    const int device = all.streams.device_of(stream, this_thread().device);
    if (device < 0) return unknown_stream("cudaStreamSynchronize");
    all.report.count("synchronizing_calls");
    all.streams.wait({all.streams.last(stream, device)});
    return all.contexts.sticky_error(device);
  });
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
  return call("cudaStreamQuery", Needs::kContext, [&] {
    Machine& all = machine();
    const int device = all.streams.device_of(stream, this_thread().device);
    if (device < 0) return unknown_stream("cudaStreamQuery");
    return all.streams.is_done(all.streams.last(stream, device))
               ? all.contexts.sticky_error(device)
               : cudaErrorNotReady;
  });
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event,
                                unsigned /*flags*/) {
  return call("cudaStreamWaitEvent", Needs::kContext, [&] {
    Machine& all = machine();
    const int device = all.streams.device_of(stream, this_thread().device);
    if (device < 0) return unknown_stream("cudaStreamWaitEvent");
    Streams::Event found;
    if (!all.streams.find_event(event, &found)) {
      return unknown_event("cudaStreamWaitEvent");
    }
    all.report.count("waits");
    if (found.record == nullptr) {
      // CUDA waits for nothing, which nobody can have meant.
      all.report.broke("wait_for_unrecorded", "cudaStreamWaitEvent", "");
      return cudaSuccess;
    }
    Streams::Work work;
    work.after.push_back(found.record);
    all.streams.give(stream, device, std::move(work));
    return cudaSuccess;
  });
}

cudaError_t cudaStreamGetPriority(cudaStream_t stream, int* priority) {
  return call("cudaStreamGetPriority", Needs::kContext, [&] {
    unsigned flags = 0;
    return machine().streams.flags_of(stream, &flags, priority)
               ? cudaSuccess
               : unknown_stream("cudaStreamGetPriority");
  });
}

cudaError_t cudaStreamGetFlags(cudaStream_t stream, unsigned* flags) {
  return call("cudaStreamGetFlags", Needs::kContext, [&] {
    int priority = 0;
    return machine().streams.flags_of(stream, flags, &priority)
               ? cudaSuccess
               : unknown_stream("cudaStreamGetFlags");
  });
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function,
                               void* data) {
  return call("cudaLaunchHostFunc", Needs::kContext, [&] {
    return add_host_function("cudaLaunchHostFunc", stream,
                             [function, data] { function(data); });
  });
}

cudaError_t cudaStreamAddCallback(cudaStream_t stream,
                                  cudaStreamCallback_t callback, void* data,
                                  unsigned /*flags*/) {
  return call("cudaStreamAddCallback", Needs::kContext, [&] {
    return add_host_function(
        "cudaStreamAddCallback", stream,
        [callback, stream, data] { callback(stream, cudaSuccess, data); });
  });
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  return call("cudaEventCreateWithFlags", Needs::kContext, [&] {
    *event = machine().streams.create_event(
        this_thread().device, (flags & cudaEventDisableTiming) == 0);
    return cudaSuccess;
  });
}

cudaError_t cudaEventCreate(cudaEvent_t* event) {
  return cudaEventCreateWithFlags(event, cudaEventDefault);
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  return call("cudaEventDestroy", Needs::kContext, [&] {
    return machine().streams.destroy_event(event)
               ? cudaSuccess
               : unknown_event("cudaEventDestroy");
  });
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return call("cudaEventRecord", Needs::kContext,
              [&] { return record("cudaEventRecord", event, stream); });
}

cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream,
                                     unsigned /*flags*/) {
  return call("cudaEventRecordWithFlags", Needs::kContext, [&] {
    return record("cudaEventRecordWithFlags", event, stream);
  });
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  return call("cudaEventQuery", Needs::kContext, [&] {
    Machine& all = machine();
    Streams::Event found;
    if (!all.streams.find_event(event, &found)) {
      return unknown_event("cudaEventQuery");
    }
    return all.streams.is_done(found.record)
               ? all.contexts.sticky_error(found.device)
               : cudaErrorNotReady;
  });
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  return call("cudaEventSynchronize", Needs::kContext, [&] {
    Machine& all = machine();
    Streams::Event found;
    if (!all.streams.find_event(event, &found)) {
      return unknown_event("cudaEventSynchronize");
    }
    all.report.count("synchronizing_calls");
    all.streams.wait({found.record});
    return all.contexts.sticky_error(found.device);
  });
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start,
                                 cudaEvent_t end) {
  return call("cudaEventElapsedTime", Needs::kContext, [&] {
    Machine& all = machine();
    Streams::Event from;
    Streams::Event to;
    if (!all.streams.find_event(start, &from) ||
        !all.streams.find_event(end, &to)) {
      return unknown_event("cudaEventElapsedTime");
    }
    if (const char* const rule = untimed(from, to); rule != nullptr) {
      return refuse(rule, "cudaEventElapsedTime", "",
                    cudaErrorInvalidResourceHandle);
    }
    if (!all.streams.is_done(from.record) || !all.streams.is_done(to.record)) {
      return cudaErrorNotReady;
    }
    *milliseconds = std::chrono::duration<float, std::milli>(to.record->time -
                                                             from.record->time)
                        .count();
    return cudaSuccess;
  });
}

// Nothing is captured into graphs.
cudaError_t cudaStreamIsCapturing(cudaStream_t /*stream*/,
                                  cudaStreamCaptureStatus* status) {
  *status = cudaStreamCaptureStatusNone;
  return cudaSuccess;
}

cudaError_t cudaStreamGetCaptureInfo(cudaStream_t /*stream*/,
                                     cudaStreamCaptureStatus* status,
                                     unsigned long long* /*id*/,
                                     cudaGraph_t* /*graph*/,
                                     const cudaGraphNode_t** /*dependencies*/,
                                     const cudaGraphEdgeData** /*edges*/,
                                     size_t* /*count*/) {
  *status = cudaStreamCaptureStatusNone;
  return cudaSuccess;
}

cudaError_t cudaThreadExchangeStreamCaptureMode(
    cudaStreamCaptureMode* /*mode*/) {
  return cudaSuccess;
}

}  // extern "C"
