#include "platform/base/clock.h"

#include <chrono>

namespace ferry {
namespace {

class RealClock final : public Clock {
 public:
  absl::Time now() const override { return absl::Now(); }
  absl::Duration monotonic() const override {
    return absl::FromChrono(
        std::chrono::steady_clock::now().time_since_epoch());
  }
};

}  // namespace

const Clock& Clock::real() {
  static const RealClock kClock;
  return kClock;
}

}  // namespace ferry
