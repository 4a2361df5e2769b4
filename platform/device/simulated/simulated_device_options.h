#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"

namespace ferry {

// The device that the simulated platform pretends to be. The defaults are a
// small one that is fast enough for tests.
struct SimulatedDeviceOptions {
  // Largest that makes sense: addresses are set aside for all of it.
  static constexpr int64_t kMaxMemoryBytes = int64_t{1} << 40;

  // Its memory. 1 to kMaxMemoryBytes.
  int64_t memory_bytes = int64_t{8} << 30;
  // Of it, what libraries would take. 0 to memory_bytes.
  int64_t library_bytes = 0;
  // Rates of the link in 10^9 bytes a second, each direction its own; all
  // copies of a direction share it. Positive.
  double h2d_gbps = 25;
  double d2h_gbps = 25;
  // From the start of a copy to its first byte. 0 to 1 s.
  absl::Duration latency = absl::Microseconds(10);
  // Copies that can run at a time, over all streams. 1 to 16.
  int copy_engines = 2;
  // The checker of orders, and 0xFF in memory that nobody may read: every
  // access is tracked, and misuse is an error. Costs a microsecond or so a
  // call, and a fill of the bytes that are freed, discarded or copied to.
  bool check = false;
};

// What is wrong with the options, each with the name of its field; empty when
// nothing is.
std::vector<std::string> problems_of(const SimulatedDeviceOptions& options);

}  // namespace ferry
