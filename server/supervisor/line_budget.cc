#include "server/supervisor/line_budget.h"

#include <algorithm>
#include <utility>

namespace ferry {

bool LineBudget::take(absl::Duration now) {
  tokens_ = std::min(
      kBurst, tokens_ + absl::ToDoubleSeconds(now - last_) * kLinesPerSecond);
  last_ = now;
  if (tokens_ < 1) {
    ++dropped_;
    return false;
  }
  tokens_ -= 1;
  return true;
}

int64_t LineBudget::take_dropped() { return std::exchange(dropped_, 0); }

}  // namespace ferry
