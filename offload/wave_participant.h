#pragma once

#include <cstdint>
#include <functional>

namespace ferry {

// What takes part in the waves of a group of ranks: phases in which all of them
// exchange weights. Outside of a wave none does, so that an idle group is at
// rest.
//
// A wave is wanted by any rank and started on every one; it takes part in each,
// also where it wants nothing itself.
//
// Threads: thread-safe; neither call waits for the other ranks.
class WaveParticipant {
 public:
  // The rank wants a wave after `last_wave`, the last that it has seen the end
  // of (0: none). Returns at once, and calls nothing of the participant.
  using WaveWanted = std::function<void(int64_t last_wave)>;

  virtual ~WaveParticipant() = default;

  // A wave has been started: 1, 2, …
  virtual void start_wave(int64_t wave) = 0;
  // Who is told from now on; null: nobody. Called before the first wave is
  // wanted, and after the last.
  virtual void set_wave_wanted(WaveWanted wanted) = 0;
};

}  // namespace ferry
