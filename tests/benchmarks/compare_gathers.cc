#include "tests/benchmarks/compare_gathers.h"

#include <gloo/rendezvous/context.h>
#include <gloo/transport/unbound_buffer.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "platform/base/clock.h"
#include "platform/base/status_macros.h"
#include "platform/device/device_arena.h"
#include "platform/device/event.h"
#include "platform/device/simulated/simulated_device.h"
#include "platform/device/simulated/simulated_device_options.h"
#include "platform/device/stream_lease.h"
#include "platform/distributed/gloo/gloo_communicator.h"
#include "platform/distributed/gloo/gloo_options.h"
#include "platform/distributed/gloo/gloo_rendezvous.h"
#include "platform/distributed/host_communicator.h"
#include "platform/distributed/prefix_store.h"
#include "platform/distributed/simulated/simulated_communicator.h"

namespace ferry {
namespace {

constexpr int kRanks = 2;
constexpr int64_t kShareBytes = 16 << 20;
constexpr size_t kSlots = 2;
// A round of each; the first is not counted.
constexpr int kMessages = 4;
constexpr int kRounds = 32;
constexpr absl::Duration kTimeout = absl::Seconds(60);

// Gathers of shares into two slots, given to the device as PassEngine does.
class Gathers {
 public:
  static absl::StatusOr<std::unique_ptr<Gathers>> create(
      std::unique_ptr<HostCommunicator> host) {
    auto gathers = absl::WrapUnique(new Gathers(std::move(host)));
    SimulatedDevice& device = gathers->device_;
    ASSIGN_OR_RETURN(gathers->memory_,
                     device.allocate((1 + kSlots * kRanks) * kShareBytes,
                                     "a share and slots"));
    ASSIGN_OR_RETURN(gathers->stream_,
                     device.acquire_stream(StreamKind::kTransfer, "gathers"));
    for (Event& ready : gathers->ready_) {
      ASSIGN_OR_RETURN(ready, device.create_event(/*timed=*/false));
    }
    return gathers;
  }

  absl::Status run() {
    char* const slots = memory_.data() + kShareBytes;
    for (size_t i = 0; i < kMessages; ++i) {
      const size_t slot = i % kSlots;
      if (i >= kSlots) RETURN_IF_ERROR(device_.synchronize(ready_[slot]));
      RETURN_IF_ERROR(communicator_.all_gather(
          stream_.get(), memory_.data(), slots + slot * kRanks * kShareBytes,
          kShareBytes));
      RETURN_IF_ERROR(device_.record(ready_[slot], stream_.get()));
    }
    return device_.synchronize(stream_.get());
  }

 private:
  explicit Gathers(std::unique_ptr<HostCommunicator> host)
      : device_(SimulatedDeviceOptions(), Clock::real()),
        communicator_(device_, std::move(host), {}) {}

  SimulatedDevice device_;
  SimulatedCommunicator communicator_;
  DeviceArena memory_;
  StreamLease stream_;
  std::array<Event, kSlots> ready_;
};

// The same in a bare loop: each rank's share comes to lie in a slot of each.
class BareLoop {
 public:
  explicit BareLoop(std::shared_ptr<gloo::rendezvous::Context> context)
      : context_(std::move(context)),
        share_(kShareBytes, 'x'),
        slots_(kSlots * kRanks * kShareBytes),
        out_(context_->createUnboundBuffer(share_.data(), share_.size())),
        in_(context_->createUnboundBuffer(slots_.data(), slots_.size())) {}

  absl::Status run() {
    const int peer = 1 - context_->rank;
    constexpr uint64_t kSlot = 1;
    for (size_t i = 0; i < kMessages; ++i) {
      const size_t first = i % kSlots * kRanks;
      in_->recv(peer, kSlot, (first + static_cast<size_t>(peer)) * kShareBytes,
                kShareBytes);
      out_->send(peer, kSlot);
      std::memcpy(
          slots_.data() +
              (first + static_cast<size_t>(context_->rank)) * kShareBytes,
          share_.data(), kShareBytes);
      in_->waitRecv();
      out_->waitSend();
    }
    return absl::OkStatus();
  }

 private:
  const std::shared_ptr<gloo::rendezvous::Context> context_;
  std::vector<char> share_;
  std::vector<char> slots_;
  const std::unique_ptr<gloo::transport::UnboundBuffer> out_;
  const std::unique_ptr<gloo::transport::UnboundBuffer> in_;
};

// From when both have come until this rank is done.
absl::StatusOr<absl::Duration> time_of(
    HostCommunicator& control, const std::function<absl::Status()>& run) {
  RETURN_IF_ERROR(barrier(control, kTimeout));
  const absl::Duration start = Clock::real().monotonic();
  RETURN_IF_ERROR(run());
  return Clock::real().monotonic() - start;
}

}  // namespace

absl::StatusOr<std::vector<double>> compare_gathers(Store& store, int rank) {
  const GlooOptions options;
  PrefixStore control_store(store, "control");
  PrefixStore weights_store(store, "weights");
  PrefixStore bare_store(store, "bare");
  ASSIGN_OR_RETURN(const std::unique_ptr<HostCommunicator> control,
                   join_gloo_group(control_store, rank, kRanks, options));
  ASSIGN_OR_RETURN(std::unique_ptr<HostCommunicator> weights,
                   join_gloo_group(weights_store, rank, kRanks, options));
  ASSIGN_OR_RETURN(std::shared_ptr<gloo::rendezvous::Context> context,
                   connect_gloo(bare_store, rank, kRanks, options));
  ASSIGN_OR_RETURN(const std::unique_ptr<Gathers> gathers,
                   Gathers::create(std::move(weights)));
  BareLoop bare(std::move(context));
  std::vector<double> ratios;
  for (int round = 0; round < kRounds; ++round) {
    std::array<absl::Duration, 2> times;
    // Each is first in every other round: whatever drifts meets both alike.
    for (const int which : {round % 2, 1 - round % 2}) {
      ASSIGN_OR_RETURN(times[static_cast<size_t>(which)],
                       time_of(*control, [&] {
                         return which == 0 ? gathers->run() : bare.run();
                       }));
    }
    if (round > 0) ratios.push_back(absl::FDivDuration(times[1], times[0]));
  }
  return ratios;
}

}  // namespace ferry
