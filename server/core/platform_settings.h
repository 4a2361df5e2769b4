#pragma once

#include <cstdint>
#include <string>

#include "absl/time/time.h"

namespace ferry {

// The device of every rank, as configured; the meanings stand in
// proto/ferry/config/v1/server_config.proto.
struct PlatformSettings {
  // "auto", "cpu", "cuda" or "simulated".
  std::string platform = "auto";
  int64_t simulated_device_memory = int64_t{8} << 30;
  double simulated_h2d_gbps = 25;
  double simulated_d2h_gbps = 25;
  absl::Duration simulated_latency = absl::Microseconds(10);
  int simulated_copy_engines = 2;
  bool simulated_check = false;
};

}  // namespace ferry
