#include "platform/distributed/simulated/simulated_communicator.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <new>
#include <utility>

#include "platform/base/fault_point.h"
#include "platform/base/status_macros.h"
#include "platform/device/host_arena.h"
#include "platform/distributed/deadline.h"
#include "platform/distributed/gather_size.h"

namespace ferry {
namespace {

// A fault point that would be out of memory makes the gather fail.
absl::Status fault_of_gather() {
  try {
    fault_point("device_gather");
  } catch (const std::bad_alloc&) {
    return absl::UnavailableError("a fault point made a gather fail");
  }
  return absl::OkStatus();
}

}  // namespace

SimulatedCommunicator::SimulatedCommunicator(
    SimulatedDevice& device, std::unique_ptr<HostCommunicator> host,
    const SimulatedCommunicatorOptions& options)
    : device_(device),
      host_(std::move(host)),
      options_(options),
      starts_(static_cast<size_t>(host_->size())) {}

absl::Status SimulatedCommunicator::all_gather(Stream stream, const void* in,
                                               void* out, int64_t bytes) {
  RETURN_IF_ERROR(check_gather_size(bytes, size()));
  RETURN_IF_ERROR(status());
  if (stream.kind != StreamKind::kTransfer) {
    return absl::InvalidArgumentError(
        "all_gather: the stream is one for compute; it must be one for "
        "transfers");
  }
  Gather* const gather = take();
  gather->in = in;
  gather->out = out;
  gather->bytes = bytes;
  if (options_.recorder != nullptr) {
    gather->number = options_.recorder->enqueue("all_gather", bytes);
  }
  const std::array<SimulatedDevice::Use, 2> uses = {
      SimulatedDevice::Use{AccessKind::kRead, in, bytes},
      SimulatedDevice::Use{AccessKind::kWrite, out, bytes * size()}};
  const auto work = [gather](WorkTimes& times) {
    SimulatedCommunicator& owner = *gather->owner;
    owner.run(*gather, times);
    owner.give_back(gather);
    return absl::OkStatus();
  };
  absl::Status given = device_.launch_timed(stream, uses, work);
  if (!given.ok()) {
    if (options_.recorder != nullptr) {
      options_.recorder->end(gather->number, given);
    }
    give_back(gather);
  }
  return given;
}

absl::Status SimulatedCommunicator::status() {
  {
    MutexLock lock(&mutex_);
    RETURN_IF_ERROR(error_);
  }
  return host_->status();
}

void SimulatedCommunicator::run(const Gather& gather, WorkTimes& times) {
  if (options_.recorder != nullptr) options_.recorder->start(gather.number);
  const absl::Status status = carry_out(gather, times);
  if (options_.recorder != nullptr) {
    options_.recorder->end(gather.number, status);
  }
  if (status.ok()) return;
  {
    MutexLock lock(&mutex_);
    error_.Update(status);
  }
  host_->abort(status.message());
}

absl::Status SimulatedCommunicator::carry_out(const Gather& gather,
                                              WorkTimes& times) {
  const Deadline deadline(options_.timeout);
  RETURN_IF_ERROR(fault_of_gather());
  const bool is_timed =
      options_.gather_gbps > 0 || options_.latency > absl::ZeroDuration();
  if (is_timed) {
    const int64_t start = absl::ToInt64Nanoseconds(times.start);
    RETURN_IF_ERROR(host_->all_gather(&start, starts_.data(), sizeof start,
                                      deadline.left()));
    const int64_t last = *std::max_element(starts_.begin(), starts_.end());
    times.end = absl::Nanoseconds(last) + options_.latency;
    if (options_.gather_gbps > 0) {
      const int64_t others = gather.bytes * (size() - 1);
      *times.end +=
          absl::Nanoseconds(static_cast<double>(others) / options_.gather_gbps);
    }
  }
  return host_->all_gather(gather.in, gather.out, gather.bytes,
                           deadline.left());
}

SimulatedCommunicator::Gather* SimulatedCommunicator::take() {
  MutexLock lock(&mutex_);
  if (unused_.empty()) {
    gathers_.push_back(std::make_unique<Gather>());
    gathers_.back()->owner = this;
    unused_.reserve(gathers_.size());
    return gathers_.back().get();
  }
  Gather* const gather = unused_.back();
  unused_.pop_back();
  return gather;
}

void SimulatedCommunicator::give_back(Gather* gather) {
  MutexLock lock(&mutex_);
  unused_.push_back(gather);
}

}  // namespace ferry
