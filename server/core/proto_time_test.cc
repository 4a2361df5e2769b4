#include "server/core/proto_time.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace ferry {
namespace {

google::protobuf::Duration proto(int64_t seconds, int nanos) {
  google::protobuf::Duration duration;
  duration.set_seconds(seconds);
  duration.set_nanos(nanos);
  return duration;
}

TEST(ProtoTimeTest, DurationsGoThereAndBack) {
  for (const absl::Duration duration :
       {absl::ZeroDuration(), absl::Nanoseconds(1), absl::Milliseconds(-1500),
        absl::Seconds(3) + absl::Nanoseconds(5), absl::Hours(-30)}) {
    EXPECT_EQ(*from_proto(to_proto(duration)), duration);
  }
  EXPECT_EQ(to_proto(absl::Milliseconds(-1500)).seconds(), -1);
  EXPECT_EQ(to_proto(absl::Milliseconds(-1500)).nanos(), -500000000);
}

TEST(ProtoTimeTest, TimestampsHaveNanosFromZeroUp) {
  const auto after =
      to_proto(absl::FromUnixSeconds(10) + absl::Milliseconds(250));
  EXPECT_EQ(after.seconds(), 10);
  EXPECT_EQ(after.nanos(), 250000000);
  const auto before = to_proto(absl::UnixEpoch() - absl::Milliseconds(250));
  EXPECT_EQ(before.seconds(), -1);
  EXPECT_EQ(before.nanos(), 750000000);
}

TEST(ProtoTimeTest, RefusesDurationsThatAreNone) {
  EXPECT_FALSE(from_proto(proto(1, -1)).ok());
  EXPECT_FALSE(from_proto(proto(-1, 1)).ok());
  EXPECT_FALSE(from_proto(proto(0, 1000000000)).ok());
  EXPECT_FALSE(from_proto(proto(INT64_MAX, 0)).ok());
  EXPECT_FALSE(from_proto(proto(INT64_MIN, 0)).ok());
  EXPECT_TRUE(from_proto(proto(315576000000, 999999999)).ok());
}

// What workers report may add up to more than there is.
TEST(ProtoTimeTest, SaturatesAtProtobufsBounds) {
  const absl::Duration longest = *from_proto(proto(315576000000, 0));
  for (const absl::Duration beyond :
       {longest + longest, longest + absl::Nanoseconds(1),
        absl::InfiniteDuration()}) {
    EXPECT_EQ(*from_proto(to_proto(beyond)), longest);
    EXPECT_EQ(*from_proto(to_proto(-beyond)), -longest);
  }
  EXPECT_EQ(to_proto(absl::InfiniteFuture()).seconds(), 253402300799);
  EXPECT_EQ(to_proto(absl::InfinitePast()).seconds(), -62135596800);
}

}  // namespace
}  // namespace ferry
