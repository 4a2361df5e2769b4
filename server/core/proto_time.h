#pragma once

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "google/protobuf/duration.pb.h"
#include "google/protobuf/timestamp.pb.h"

namespace ferry {

// absl's time types ↔ protobuf's. Threads: free functions without state.

// Saturates at protobuf's bounds: ±10,000 years, and the years 1 to 9999.
google::protobuf::Duration to_proto(absl::Duration duration);
google::protobuf::Timestamp to_proto(absl::Time time);

// INVALID_ARGUMENT when seconds and nanos are out of protobuf's range or have
// different signs.
absl::StatusOr<absl::Duration> from_proto(
    const google::protobuf::Duration& duration);

}  // namespace ferry
