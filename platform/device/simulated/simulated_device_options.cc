#include "platform/device/simulated/simulated_device_options.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace ferry {

std::vector<std::string> problems_of(const SimulatedDeviceOptions& options) {
  std::vector<std::string> problems;
  const auto require = [&problems](bool right, const auto&... parts) {
    if (!right) problems.push_back(absl::StrCat(parts...));
  };
  const auto is_rate = [](double gbps) {
    return std::isfinite(gbps) && gbps > 0;
  };
  require(options.memory_bytes >= 1 &&
              options.memory_bytes <= SimulatedDeviceOptions::kMaxMemoryBytes,
          "simulated_device_memory: ", options.memory_bytes,
          " is not from 1 to ", SimulatedDeviceOptions::kMaxMemoryBytes,
          " bytes");
  require(options.library_bytes >= 0 &&
              options.library_bytes <= options.memory_bytes,
          "library_bytes: ", options.library_bytes, " is not from 0 to ",
          options.memory_bytes, " bytes");
  require(is_rate(options.h2d_gbps), "simulated_h2d_gbps: ", options.h2d_gbps,
          " is not a positive number");
  require(is_rate(options.d2h_gbps), "simulated_d2h_gbps: ", options.d2h_gbps,
          " is not a positive number");
  require(options.latency >= absl::ZeroDuration() &&
              options.latency <= absl::Seconds(1),
          "simulated_latency: ", absl::FormatDuration(options.latency),
          " is not from 0 to 1s");
  require(options.copy_engines >= 1 && options.copy_engines <= 16,
          "simulated_copy_engines: ", options.copy_engines,
          " is not from 1 to 16");
  return problems;
}

}  // namespace ferry
