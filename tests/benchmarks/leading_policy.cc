#include "tests/benchmarks/leading_policy.h"

#include <array>
#include <cstddef>
#include <memory>

#include "platform/base/clock.h"
#include "platform/base/status_macros.h"
#include "platform/device/device.h"
#include "platform/device/device_arena.h"
#include "platform/device/event.h"
#include "platform/device/host_arena.h"
#include "platform/device/simulated/simulated_device.h"
#include "platform/device/stream.h"
#include "platform/device/stream_lease.h"
#include "tests/benchmarks/timed_module.h"

namespace ferry {
namespace {

// The streamed blocks of one policy, all from one image.
class Ring {
 public:
  static absl::StatusOr<std::unique_ptr<Ring>> create(SimulatedDevice& device,
                                                      int64_t bytes) {
    auto ring = std::make_unique<Ring>(device, bytes);
    ASSIGN_OR_RETURN(ring->image_, device.allocate_host(bytes, "image"));
    ASSIGN_OR_RETURN(ring->memory_, device.allocate(2 * bytes, "slots"));
    ASSIGN_OR_RETURN(ring->lease_,
                     device.acquire_stream(StreamKind::kTransfer, "copy"));
    for (Slot& slot : ring->slots_) {
      ASSIGN_OR_RETURN(slot.ready, device.create_event(false));
      ASSIGN_OR_RETURN(slot.used, device.create_event(false));
      RETURN_IF_ERROR(device.record(slot.used, device.current_stream()));
    }
    return ring;
  }

  Ring(SimulatedDevice& device, int64_t bytes)
      : device_(device), bytes_(bytes) {}

  absl::Status fetch(int block) {
    const auto s = static_cast<size_t>(block % 2);
    RETURN_IF_ERROR(device_.wait(lease_.get(), slots_[s].used));
    char* const target = memory_.data() + static_cast<int64_t>(s) * bytes_;
    RETURN_IF_ERROR(device_.copy_async(
        lease_.get(),
        {CopyKind::kHostToDevice, target, image_.data(), bytes_}));
    return device_.record(slots_[s].ready, lease_.get());
  }
  absl::Status await(int block) {
    return device_.wait(device_.current_stream(),
                        slots_[static_cast<size_t>(block % 2)].ready);
  }
  absl::Status release(int block) {
    return device_.record(slots_[static_cast<size_t>(block % 2)].used,
                          device_.current_stream());
  }

 private:
  struct Slot {
    Event ready;
    Event used;
  };

  SimulatedDevice& device_;
  const int64_t bytes_;
  HostArena image_;
  DeviceArena memory_;
  StreamLease lease_;
  std::array<Slot, 2> slots_;
};

absl::Status run_pass(const LeadingPolicy& policy, Ring& ring) {
  for (int block = 0; block < policy.blocks; ++block) {
    if (block >= policy.resident) RETURN_IF_ERROR(ring.await(block));
    const int next = block + 1;
    if (next >= policy.resident && next < policy.blocks) {
      RETURN_IF_ERROR(ring.fetch(next));
    }
    compute_for(policy.compute);
    if (block >= policy.resident) RETURN_IF_ERROR(ring.release(block));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<absl::Duration> leading_pass_time(
    const LeadingPolicy& policy, const SimulatedDeviceOptions& options,
    int passes) {
  SimulatedDevice device(options, Clock::real());
  ASSIGN_OR_RETURN(const std::unique_ptr<Ring> ring,
                   Ring::create(device, policy.bytes));
  absl::Duration start;
  for (int pass = 0; pass <= passes; ++pass) {
    if (pass == 1) start = Clock::real().monotonic();
    RETURN_IF_ERROR(run_pass(policy, *ring));
  }
  const absl::Duration time = Clock::real().monotonic() - start;
  RETURN_IF_ERROR(device.synchronize());
  return time / passes;
}

}  // namespace ferry
