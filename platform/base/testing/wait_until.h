#pragma once

#include "absl/time/time.h"

namespace ferry {

// Blocks until the monotonic clock shows `end`; a thread that is to wake at
// exact times asks for a small timer slack.
void wait_until(absl::Duration end);

}  // namespace ferry
