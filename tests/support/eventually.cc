#include "tests/support/eventually.h"

#include <poll.h>

#include "absl/time/clock.h"

namespace ferry {

bool eventually(const std::function<bool()>& condition,
                absl::Duration timeout) {
  const absl::Time end = absl::Now() + timeout;
  while (!condition()) {
    if (absl::Now() >= end) return condition();
    poll(nullptr, 0, 10);
  }
  return true;
}

}  // namespace ferry
