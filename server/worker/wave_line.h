#pragma once

#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "offload/wave_participant.h"
#include "platform/base/mutex.h"

namespace ferry {

// Between ferryd, which starts waves, and what takes part in them on this rank:
//
//   ferryd ──start()──► participant.start_wave()
//   ferryd ◄──next_wanted()── the participant's WaveWanted
//
// A rank may still load when another wants the first wave: what has been
// started is given to the participant when it comes, in order.
//
// Ownership: the participant must outlive its attach() … detach().
// REQUIRES at destruction: none is attached.
// Threads: thread-safe. attach(), detach() and start() wait for each other;
//   what the participant wants waits for none of them. One thread listens.
// Errors: start() out of order, FAILED_PRECONDITION.
class WaveLine {
 public:
  WaveLine() = default;
  ~WaveLine();
  WaveLine(const WaveLine&) = delete;
  WaveLine& operator=(const WaveLine&) = delete;

  // REQUIRES: none is attached.
  void attach(WaveParticipant& participant)
      EXCLUDES_LOCK(start_mutex_, want_mutex_);
  // It is not called any more.
  void detach() EXCLUDES_LOCK(start_mutex_, want_mutex_);

  // ferryd has started this wave on every rank.
  absl::Status start(int64_t wave) EXCLUDES_LOCK(start_mutex_);

  // Blocks until the participant wants a wave; returns the last one before it.
  // Nothing after close().
  std::optional<int64_t> next_wanted() EXCLUDES_LOCK(want_mutex_);
  // Nobody listens any more.
  void close() EXCLUDES_LOCK(want_mutex_);

 private:
  void want(int64_t last_wave) EXCLUDES_LOCK(want_mutex_);

  Mutex start_mutex_;
  WaveParticipant* participant_ GUARDED_BY(start_mutex_) = nullptr;
  // The last one that has been started, and that the participants know of.
  int64_t started_ GUARDED_BY(start_mutex_) = 0;
  int64_t given_ GUARDED_BY(start_mutex_) = 0;

  Mutex want_mutex_;
  CondVar want_changed_;
  std::optional<int64_t> wanted_ GUARDED_BY(want_mutex_);
  bool closed_ GUARDED_BY(want_mutex_) = false;
};

}  // namespace ferry
