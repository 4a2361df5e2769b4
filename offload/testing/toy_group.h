#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "offload/distributed/rank_group.h"
#include "offload/offload_config.h"
#include "offload/placement_backend.h"
#include "offload/testing/toy_module.h"
#include "offload/wave_participant.h"
#include "platform/base/mutex.h"
#include "platform/device/simulated/simulated_device_options.h"
#include "platform/device/simulated/simulated_platform.h"
#include "platform/distributed/in_process/in_process_group.h"

namespace ferry {

struct ToyGroupOptions {
  int ranks = 2;
  // Unset: as the backend chooses.
  std::optional<int> slots = 2;
  ToyOptions toy;
  // The second block of the first DiT is some five times as large as the
  // others, and no share of it is a round number.
  bool unequal = false;
  // Else each rank copies whole blocks of its DiTs, of which so many stay.
  bool gathers = true;
  int64_t resident_layers = 0;
  // Else what the policy "auto" makes of the device's memory.
  bool automatic = false;
  // What each rank needs whole is on the host once.
  bool shares_images = false;
  // Ranks that gather of themselves find out whether it is worth it.
  bool confirms = false;
  // Devices are joined when somebody has something to gather.
  bool joins_late = false;
  // Of each block, in the offloaded pipelines.
  absl::Duration block_time;
  SimulatedDeviceOptions device;
  double gather_gbps = 0;
  absl::Duration timeout = absl::Minutes(1);
  // Of votes, and of gathers.
  CallFaults control_faults;
  CallFaults weight_faults;
  // Of what is found out while passes are made.
  CallFaults choice_faults;
};

// Ranks as threads: each has a simulated device, an equal toy pipeline whose
// DiTs and encoders are gathered, or streamed by itself, and a twin of it that
// is not offloaded.
class ToyGroup {
 public:
  struct Rank {
    std::unique_ptr<SimulatedPlatform> platform;
    std::unique_ptr<ToyModule> module;
    std::unique_ptr<ToyModule> twin;
    RankGroup group;
    // How often its device was joined late.
    int joins = 0;
    // Uses all of the above.
    std::unique_ptr<PlacementBackend> backend;
  };

  explicit ToyGroup(const ToyGroupOptions& options);
  ~ToyGroup();
  ToyGroup(const ToyGroup&) = delete;
  ToyGroup& operator=(const ToyGroup&) = delete;

  int size() const { return static_cast<int>(ranks_.size()); }
  Rank& rank(int rank) { return ranks_[static_cast<size_t>(rank)]; }

  // Enables all ranks, each on its thread, and joins them to the waves. Returns
  // what each said.
  std::vector<absl::Status> enable();
  // After enable(): what each said to a request of `run(rank)`. Whoever hears
  // that it was not worth it gets another pipeline, and a backend on it.
  std::vector<absl::Status> confirm(
      const std::function<absl::Status(int rank)>& run);
  std::vector<absl::Status> disable();
  // Whether a pass of the rank gives its twin's bytes; false after an error.
  bool is_same(int rank, size_t component, const at::Tensor& x);
  // A request of so many passes over the first component.
  void expect_request(int rank, int passes);
  // How many waves there were since they were enabled.
  int64_t waves() EXCLUDES_LOCK(mutex_);
  // What any device found wrong.
  std::vector<std::string> violations();

 private:
  void want_wave(int64_t last_wave) EXCLUDES_LOCK(mutex_);
  // Takes the devices' group away until join_devices() is called.
  void leave_for_later(Rank& rank);
  std::unique_ptr<ToyModule> make_module() const;
  std::unique_ptr<PlacementBackend> make_backend(Rank& rank) const;
  absl::Status place_again(Rank& rank) EXCLUDES_LOCK(mutex_);

  const ToyGroupOptions options_;
  std::vector<Rank> ranks_;

  Mutex mutex_;
  int64_t last_wave_ GUARDED_BY(mutex_) = 0;
  std::vector<WaveParticipant*> participants_ GUARDED_BY(mutex_);
};

}  // namespace ferry
