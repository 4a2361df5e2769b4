#pragma once

#include <functional>

#include "absl/time/time.h"

namespace ferry {

// How long a test waits for something that must happen; generous, since it is
// used up only by a test that fails.
constexpr absl::Duration kPatience = absl::Seconds(30);

// Blocks until `condition` holds or `timeout` has passed; returns whether it
// holds. For what nothing announces, such as a file of another process: it
// looks every 10 ms.
bool eventually(const std::function<bool()>& condition,
                absl::Duration timeout = kPatience);

}  // namespace ferry
