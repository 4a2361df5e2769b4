#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "offload/distributed/rank_group.h"
#include "offload/placement_backend.h"
#include "offload/wave_participant.h"
#include "platform/base/mutex.h"
#include "platform/device/simulated/simulated_platform.h"
#include "tests/benchmarks/timed_module.h"

namespace ferry {

// Ranks, and how long each thing takes for one block.
struct TimedGroupOptions {
  int ranks = 2;
  int blocks = 24;
  absl::Duration compute = absl::Milliseconds(2);
  // C, X and G of a block: what one rank would copy if it were alone, of which
  // each copies its part, and how long the parts take to gather.
  absl::Duration copy_alone;
  absl::Duration gather;
};

// Ranks as threads: each has a simulated device, with a link of its own, and an
// equal TimedModule under the product's backend, whose blocks they gather. One
// rank alone streams them from its host, as policy `layer` does.
//
// A rank's calls are made on its thread of run().
class TimedGroup {
 public:
  explicit TimedGroup(const TimedGroupOptions& options);
  ~TimedGroup();
  TimedGroup(const TimedGroup&) = delete;
  TimedGroup& operator=(const TimedGroup&) = delete;

  int size() const { return static_cast<int>(ranks_.size()); }
  // Calls `work(rank)` for each rank, on a thread of its own. Throws, as
  // require() does, when one of them is an error.
  void run(const std::function<absl::Status(int rank)>& work);

  // One pass of a request.
  absl::Status run_pass(int rank) { return module(rank).run_pass(); }
  TimedModule& module(int rank) { return *at(rank).module; }
  // A request of so many passes; the engine is told which one is the last.
  absl::Status run_request(int rank, int passes);
  // As the worker does after its last step, and after a request.
  void begin_last_step(int rank) { at(rank).backend->begin_last_step(); }
  void end_request(int rank) { at(rank).backend->end_generation(); }

 private:
  struct Rank {
    std::unique_ptr<SimulatedPlatform> platform;
    std::unique_ptr<TimedModule> module;
    RankGroup group;
    // Uses all of the above.
    std::unique_ptr<PlacementBackend> backend;
  };

  Rank& at(int rank) { return ranks_[static_cast<size_t>(rank)]; }
  void join_waves() EXCLUDES_LOCK(mutex_);
  void want_wave(int64_t last_wave) EXCLUDES_LOCK(mutex_);

  std::vector<Rank> ranks_;

  Mutex mutex_;
  int64_t last_wave_ GUARDED_BY(mutex_) = 0;
  std::vector<WaveParticipant*> participants_ GUARDED_BY(mutex_);
};

}  // namespace ferry
