#include "platform/device/simulated/order_checker.h"

namespace ferry {

std::optional<AccessConflict> OrderChecker::access(
    int owner, int64_t number, absl::Span<const Touch> touches) {
  VectorClock clock = clock_of(owner);
  clock.join(clock_of(VectorClock::kHost));
  for (const Touch& touch : touches) {
    auto conflict = history_.find_conflict(touch.range, touch.type, clock);
    if (conflict) return conflict;
  }
  const int64_t epoch = clock.tick(owner);
  clock_of(owner) = clock;
  for (const Touch& touch : touches) {
    history_.add(touch.range, {touch.type, owner, epoch, number});
  }
  return std::nullopt;
}

VectorClock OrderChecker::record(int stream) {
  clock_of(stream).join(clock_of(VectorClock::kHost));
  return clock_of(stream);
}

VectorClock OrderChecker::everything() const {
  VectorClock all;
  for (const VectorClock& clock : clocks_) all.join(clock);
  return all;
}

void OrderChecker::wait(int stream, const VectorClock& clock) {
  clock_of(stream).join(clock);
}

void OrderChecker::join_host(const VectorClock& clock) {
  clock_of(VectorClock::kHost).join(clock);
}

}  // namespace ferry
