#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "platform/device/platform.h"

namespace ferry {

// Makes the platform called `name` ("cpu"); the only place that knows the
// implementations. INVALID_ARGUMENT names the platforms that exist.
absl::StatusOr<std::unique_ptr<Platform>> get_platform(absl::string_view name);

}  // namespace ferry
