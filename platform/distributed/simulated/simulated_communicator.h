#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "platform/base/mutex.h"
#include "platform/device/simulated/simulated_device.h"
#include "platform/device/simulated/stream_engine.h"
#include "platform/device/stream.h"
#include "platform/distributed/communicator.h"
#include "platform/distributed/flight_recorder.h"
#include "platform/distributed/host_communicator.h"

namespace ferry {

// How long gathers of simulated devices take; equal on all ranks.
struct SimulatedCommunicatorOptions {
  // 10^9 bytes a second, of those that come from other ranks; 0: as fast as the
  // host can. With it, or a latency, ranks must share one clock: threads, or
  // processes of one host.
  double gather_gbps = 0;
  // From the moment when the last rank has come to the first byte.
  absl::Duration latency;
  // Of one gather, from its start to its end.
  absl::Duration timeout = absl::Seconds(60);
  // Sees the gathers; null: nobody does. Outlives the communicator.
  FlightRecorder* recorder = nullptr;
};

// Joins simulated devices, whose memory is the host's: a gather runs on the
// thread of its stream, as work of the device, through a HostCommunicator of
// its own. The checker of orders sees what it reads and writes.
//
// Streams are transfer streams. A gather that fails ends as others do, and
// `out` has what it had: only status() tells, here and soon on the other ranks.
// With a set rate or latency a gather ends when the last rank has come to it,
// by set times, and the time has passed; or later, when the host is slower. In
// the steady state no call allocates memory.
//
// Threads and ownership: as Communicator says.
class SimulatedCommunicator final : public Communicator {
 public:
  SimulatedCommunicator(SimulatedDevice& device,
                        std::unique_ptr<HostCommunicator> host,
                        const SimulatedCommunicatorOptions& options);

  int rank() const override { return host_->rank(); }
  int size() const override { return host_->size(); }
  absl::Status all_gather(Stream stream, const void* in, void* out,
                          int64_t bytes) override EXCLUDES_LOCK(mutex_);
  void abort(absl::string_view reason) override { host_->abort(reason); }
  absl::Status status() override EXCLUDES_LOCK(mutex_);

 private:
  // A gather that is enqueued or running. It knows its owner so that the
  // device's work is one pointer, for which no memory is allocated.
  struct Gather {
    SimulatedCommunicator* owner = nullptr;
    const void* in = nullptr;
    void* out = nullptr;
    int64_t bytes = 0;
    // Of the recorder's operations.
    int64_t number = 0;
  };

  Gather* take() EXCLUDES_LOCK(mutex_);
  void give_back(Gather* gather) EXCLUDES_LOCK(mutex_);
  void run(const Gather& gather, WorkTimes& times) EXCLUDES_LOCK(mutex_);
  absl::Status carry_out(const Gather& gather, WorkTimes& times);

  // Constant after construction.
  SimulatedDevice& device_;
  const std::unique_ptr<HostCommunicator> host_;
  const SimulatedCommunicatorOptions options_;

  // When each rank came to a gather. Of the stream that works.
  std::vector<int64_t> starts_;

  Mutex mutex_;
  // Of the first gather that failed.
  absl::Status error_ GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<Gather>> gathers_ GUARDED_BY(mutex_);
  std::vector<Gather*> unused_ GUARDED_BY(mutex_);
};

}  // namespace ferry
