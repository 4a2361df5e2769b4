// A ring of slots, small enough to see that its orders are the least that it
// needs: every one that is left out is found.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "platform/base/clock.h"
#include "platform/base/status_macros.h"
#include "platform/device/device.h"
#include "platform/device/device_arena.h"
#include "platform/device/event.h"
#include "platform/device/host_arena.h"
#include "platform/device/resource_owner.h"
#include "platform/device/simulated/simulated_device.h"
#include "platform/device/simulated/simulated_device_options.h"
#include "platform/device/stream.h"
#include "platform/device/stream_lease.h"
#include "platform/device/testing/mutating_device.h"

namespace ferry {
namespace {

constexpr int64_t kBlockBytes = 4096;

struct ToyOptions {
  int blocks = 5;
  int slots = 2;
  int passes = 3;
  // Kernels are a stream's work, not calls of the host's thread.
  bool launches = false;
};

// Blocks of bytes stream through slots; the "kernel" of a block sums its bytes
// up. One block stays on the device.
class ToyRing {
 public:
  // Kernels run on `simulated`, everything else asks `device`.
  ToyRing(const ToyOptions& options, Device& device, SimulatedDevice& simulated)
      : options_(options), device_(device), simulated_(simulated) {}

  // The sum of every block in the order of their computation.
  absl::StatusOr<std::vector<int64_t>> run() {
    RETURN_IF_ERROR(set_up());
    RETURN_IF_ERROR(place_resident());
    for (int i = 0; i < options_.slots; ++i) RETURN_IF_ERROR(prefetch());
    for (int pass = 0; pass < options_.passes; ++pass) {
      RETURN_IF_ERROR(compute(resident_.data()));
      for (int block = 0; block < options_.blocks; ++block) {
        RETURN_IF_ERROR(step());
        if (copied_ < options_.passes * options_.blocks) {
          RETURN_IF_ERROR(prefetch());
        }
      }
    }
    RETURN_IF_ERROR(tear_down());
    return sums_;
  }

 private:
  struct Slot {
    DeviceArena arena;
    Event ready;
    Event last_use;
    bool was_used = false;
  };

  absl::Status set_up() {
    sums_.reserve(100);
    ASSIGN_OR_RETURN(copy_,
                     device_.acquire_stream(StreamKind::kTransfer, "copy"));
    ASSIGN_OR_RETURN(compute_, device_.acquire_stream(
                                   options_.launches ? StreamKind::kTransfer
                                                     : StreamKind::kCompute,
                                   "compute"));
    ASSIGN_OR_RETURN(
        images_,
        device_.allocate_host((1 + options_.blocks) * kBlockBytes, "images"));
    ASSIGN_OR_RETURN(HostAccess access,
                     images_.access(AccessKind::kWrite, 0, images_.bytes()));
    for (int64_t i = 0; i < images_.bytes(); ++i) {
      access.data()[i] = static_cast<char>(i * i / kBlockBytes + i % 251);
    }
    RETURN_IF_ERROR(access.end());
    for (int i = 0; i < options_.slots; ++i) {
      Slot slot;
      ASSIGN_OR_RETURN(slot.arena,
                       device_.allocate(kBlockBytes, absl::StrCat("slot ", i)));
      ASSIGN_OR_RETURN(slot.ready, device_.create_event(false));
      ASSIGN_OR_RETURN(slot.last_use, device_.create_event(false));
      slots_.push_back(std::move(slot));
    }
    return absl::OkStatus();
  }

  absl::Status place_resident() {
    ASSIGN_OR_RETURN(resident_, device_.allocate(kBlockBytes, "resident"));
    RETURN_IF_ERROR(device_.copy_async(
        copy_.get(),
        {CopyKind::kHostToDevice, resident_.data(), image(0), kBlockBytes}));
    ASSIGN_OR_RETURN(resident_ready_, device_.create_event(false));
    RETURN_IF_ERROR(device_.record(resident_ready_, copy_.get()));
    return device_.wait(compute_.get(), resident_ready_);
  }

  // Copies the next block into the next slot.
  absl::Status prefetch() {
    Slot& slot = slots_[static_cast<size_t>(copied_ % options_.slots)];
    if (slot.was_used) {
      RETURN_IF_ERROR(device_.wait(copy_.get(), slot.last_use));
    }
    RETURN_IF_ERROR(device_.copy_async(
        copy_.get(), {CopyKind::kHostToDevice, slot.arena.data(),
                      image(1 + copied_ % options_.blocks), kBlockBytes}));
    RETURN_IF_ERROR(device_.record(slot.ready, copy_.get()));
    ++copied_;
    return absl::OkStatus();
  }

  // Computes the next block.
  absl::Status step() {
    Slot& slot = slots_[static_cast<size_t>(computed_ % options_.slots)];
    RETURN_IF_ERROR(device_.wait(compute_.get(), slot.ready));
    RETURN_IF_ERROR(compute(slot.arena.data()));
    RETURN_IF_ERROR(
        device_.discard(compute_.get(), slot.arena.data(), kBlockBytes));
    RETURN_IF_ERROR(device_.record(slot.last_use, compute_.get()));
    slot.was_used = true;
    ++computed_;
    return absl::OkStatus();
  }

  absl::Status compute(const char* data) {
    sums_.push_back(0);
    int64_t* const sum = &sums_.back();
    const auto kernel = [data, sum] {
      for (int64_t i = 0; i < kBlockBytes; ++i) *sum += (i + 1) * data[i];
      return absl::OkStatus();
    };
    const Stream stream = compute_.get();
    if (options_.launches) {
      const SimulatedDevice::Use use = {AccessKind::kRead, data, kBlockBytes};
      return simulated_.launch(stream, {use}, kernel);
    }
    RETURN_IF_ERROR(
        device_.mark_access(stream, AccessKind::kRead, data, kBlockBytes));
    RETURN_IF_ERROR(kernel());
    return device_.mark_access(stream, AccessKind::kRead, data, kBlockBytes);
  }

  absl::Status tear_down() {
    // In the order of use: to know of a later one is to know of all before.
    for (int i = 0; i < options_.slots; ++i) {
      Slot& slot =
          slots_[static_cast<size_t>((computed_ + i) % options_.slots)];
      RETURN_IF_ERROR(device_.synchronize(slot.last_use));
      RETURN_IF_ERROR(slot.arena.free());
    }
    RETURN_IF_ERROR(resident_.free());
    return images_.free();
  }

  const char* image(int block) const {
    return images_.data() + block * kBlockBytes;
  }

  const ToyOptions options_;
  Device& device_;
  SimulatedDevice& simulated_;
  StreamLease copy_;
  StreamLease compute_;
  HostArena images_;
  DeviceArena resident_;
  Event resident_ready_;
  std::vector<Slot> slots_;
  int copied_ = 0;
  int computed_ = 0;
  std::vector<int64_t> sums_;
};

// What a run, with its n-th duty let go, came to.
struct Outcome {
  absl::StatusOr<std::vector<int64_t>> sums;
  std::vector<std::string> violations;
  int64_t duties = 0;
};

Outcome run(const ToyOptions& options, int64_t dropped) {
  SimulatedDeviceOptions device_options;
  device_options.memory_bytes = 1 << 20;
  device_options.latency = absl::ZeroDuration();
  device_options.check = true;
  SimulatedDevice simulated(device_options, Clock::real());
  MutatingDevice device(
      simulated, {Duty::kWait, Duty::kRecord, Duty::kSynchronize, Duty::kCopy},
      dropped);
  Outcome outcome;
  {
    ToyRing ring(options, device, simulated);
    outcome.sums = ring.run();
    outcome.violations = simulated.violations();
    // Not a part of the run: what is left is given back in order.
    EXPECT_TRUE(simulated.synchronize().ok());
  }
  outcome.duties = static_cast<int64_t>(device.calls().size());
  return outcome;
}

TEST(ToyRing, EveryOrderThatIsLeftOutIsFoundAndNoneIsFoundWithoutNeed) {
  int64_t mutants = 0;
  std::vector<std::string> survivors;
  for (const bool launches : {false, true}) {
    for (const int slots : {1, 2, 3}) {
      const ToyOptions options = {5, slots, 3, launches};
      const Outcome right = run(options, 0);
      ASSERT_TRUE(right.sums.ok()) << right.sums.status();
      ASSERT_TRUE(right.violations.empty()) << right.violations.front();
      for (int64_t k = 1; k <= right.duties; ++k) {
        ++mutants;
        const Outcome outcome = run(options, k);
        const bool is_found = !outcome.sums.ok() ||
                              !outcome.violations.empty() ||
                              *outcome.sums != *right.sums;
        if (!is_found) {
          survivors.push_back(absl::StrCat("duty ", k, " with ", slots,
                                           " slots, launches: ", launches));
        }
      }
    }
  }
  std::printf("toy ring: %d mutants, %d survivors\n", static_cast<int>(mutants),
              static_cast<int>(survivors.size()));
  EXPECT_GT(mutants, 300);
  for (const std::string& survivor : survivors) ADD_FAILURE() << survivor;
}

TEST(ToyRing, SumsAreThoseOfTheImages) {
  const ToyOptions options;
  const Outcome outcome = run(options, 0);
  ASSERT_TRUE(outcome.sums.ok()) << outcome.sums.status();
  const std::vector<int64_t>& sums = *outcome.sums;
  ASSERT_EQ(sums.size(), 18u);
  // Each pass computes the same, and no two blocks are equal.
  for (size_t i = 0; i < 6; ++i) {
    EXPECT_EQ(sums[i], sums[i + 6]);
    EXPECT_EQ(sums[i], sums[i + 12]);
    EXPECT_EQ(std::count(sums.begin(), sums.begin() + 6, sums[i]), 1);
  }
}

}  // namespace
}  // namespace ferry
