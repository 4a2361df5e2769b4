#include "server/core/proto_time.h"

#include <algorithm>
#include <cstdint>

namespace ferry {
namespace {

// google.protobuf.Duration's bound.
constexpr int64_t kMaxSeconds = 315'576'000'000;
// google.protobuf.Timestamp's: 0001-01-01T00:00:00Z and the second before the
// year 10000.
constexpr int64_t kFirstSecond = -62'135'596'800;
constexpr int64_t kLastSecond = 253'402'300'799;

}  // namespace

google::protobuf::Duration to_proto(absl::Duration duration) {
  duration = std::clamp(duration, absl::Seconds(-kMaxSeconds),
                        absl::Seconds(kMaxSeconds));
  google::protobuf::Duration result;
  absl::Duration rest;
  result.set_seconds(absl::IDivDuration(duration, absl::Seconds(1), &rest));
  result.set_nanos(static_cast<int>(absl::ToInt64Nanoseconds(rest)));
  return result;
}

google::protobuf::Timestamp to_proto(absl::Time time) {
  time = std::clamp(time, absl::FromUnixSeconds(kFirstSecond),
                    absl::FromUnixSeconds(kLastSecond));
  google::protobuf::Timestamp result;
  const int64_t seconds = absl::ToUnixSeconds(time);
  result.set_seconds(seconds);
  result.set_nanos(static_cast<int>(
      absl::ToInt64Nanoseconds(time - absl::FromUnixSeconds(seconds))));
  return result;
}

absl::StatusOr<absl::Duration> from_proto(
    const google::protobuf::Duration& duration) {
  constexpr int kMaxNanos = 999'999'999;
  const int64_t seconds = duration.seconds();
  const int nanos = duration.nanos();
  if (seconds < -kMaxSeconds || seconds > kMaxSeconds || nanos < -kMaxNanos ||
      nanos > kMaxNanos || (seconds < 0 && nanos > 0) ||
      (seconds > 0 && nanos < 0)) {
    return absl::InvalidArgumentError("is no valid google.protobuf.Duration");
  }
  return absl::Seconds(seconds) + absl::Nanoseconds(nanos);
}

}  // namespace ferry
