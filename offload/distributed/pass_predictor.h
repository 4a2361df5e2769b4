#pragma once

#include <cstddef>
#include <vector>

namespace ferry {

// Guesses which ring a denoising loop will walk over next: the one that came
// after this one the last time, at first the same one again. A wrong guess
// costs the group a pass or a pause, never more.
//
// Not thread-safe.
class PassPredictor {
 public:
  static constexpr int kNone = -1;

  PassPredictor() = default;
  explicit PassPredictor(size_t rings) : next_(rings, kNone) {}

  // A pass of `ring` is asked for; returns the ring that may follow, or kNone.
  int ask(size_t ring);
  // The loop's next step is its last: nothing is predicted from there on.
  void begin_last_step() { is_last_step_ = true; }
  // The loop is over.
  void end_loop();

 private:
  std::vector<int> next_;
  int last_ = kNone;
  bool is_last_step_ = false;
};

}  // namespace ferry
