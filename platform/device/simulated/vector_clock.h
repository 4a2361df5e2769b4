#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace ferry {

// How much of every owner's work is known to have ended before a point. An
// owner is the host (0) or a stream (its id). A value.
class VectorClock {
 public:
  static constexpr int kHost = 0;
  static constexpr int kMaxStreams = 32;

  int64_t at(int owner) const { return epochs_[static_cast<size_t>(owner)]; }

  // Starts the owner's next piece of work and returns its epoch.
  int64_t tick(int owner) { return ++epochs_[static_cast<size_t>(owner)]; }

  // What is before `other` is before this, too.
  void join(const VectorClock& other) {
    for (size_t i = 0; i < epochs_.size(); ++i) {
      epochs_[i] = std::max(epochs_[i], other.epochs_[i]);
    }
  }

 private:
  std::array<int64_t, 1 + kMaxStreams> epochs_ = {};
};

}  // namespace ferry
