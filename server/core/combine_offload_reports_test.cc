#include "server/core/combine_offload_reports.h"

#include <gtest/gtest.h>

namespace ferry {
namespace {

v1::OffloadReport report(int64_t bytes, int stall_ms, double gbps) {
  v1::OffloadReport report;
  report.set_strategy("layer_wise");
  report.set_host_bytes(bytes);
  report.set_device_bytes(bytes);
  report.set_resident_bytes(bytes / 2);
  report.set_streamed_bytes(bytes / 4);
  report.set_total_h2d_bytes(bytes);
  report.set_total_demand_fetches(1);
  report.set_slots(2);
  report.set_h2d_gbps(gbps);
  report.mutable_total_exposed_stall()->set_nanos(stall_ms * 1000000);
  report.mutable_total_first_block_stall()->set_nanos(stall_ms * 1000000);
  return report;
}

TEST(CombineOffloadReports, OneRankIsAsItIs) {
  const v1::OffloadReport one = report(8, 3, 20);
  EXPECT_EQ(combine_offload_reports({one}).SerializeAsString(),
            one.SerializeAsString());
  EXPECT_EQ(combine_offload_reports({}).ByteSizeLong(), 0u);
}

TEST(CombineOffloadReports, SumsWhatRanksDidAndKeepsWhatADeviceHolds) {
  v1::OffloadReport last = report(400, 700, 30);
  last.set_strategy("none");
  const v1::OffloadReport all =
      combine_offload_reports({report(800, 600, 20), report(80, 0, 0), last});
  EXPECT_EQ(all.strategy(), "layer_wise");
  EXPECT_EQ(all.host_bytes(), 1280);
  EXPECT_EQ(all.total_h2d_bytes(), 1280);
  EXPECT_EQ(all.total_demand_fetches(), 3);
  EXPECT_EQ(all.total_exposed_stall().seconds(), 1);
  EXPECT_EQ(all.total_exposed_stall().nanos(), 300000000);
  EXPECT_EQ(all.total_first_block_stall().seconds(), 1);
  EXPECT_EQ(all.device_bytes(), 800);
  EXPECT_EQ(all.resident_bytes(), 400);
  EXPECT_EQ(all.streamed_bytes(), 200);
  EXPECT_EQ(all.slots(), 2);
  // The second one does not know its rate.
  EXPECT_EQ(all.h2d_gbps(), 25);
}

TEST(CombineOffloadReports, StallsThatNobodyMeasuredStayUnset) {
  v1::OffloadReport none;
  none.set_strategy("none");
  EXPECT_FALSE(combine_offload_reports({none, none}).has_total_exposed_stall());
}

}  // namespace
}  // namespace ferry
