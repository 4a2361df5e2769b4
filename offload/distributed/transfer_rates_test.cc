#include "offload/distributed/transfer_rates.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "offload/distributed/rank_group.h"
#include "platform/base/clock.h"
#include "platform/device/cuda/testing/fake_cuda_api.h"
#include "platform/device/cuda/testing/fake_cuda_platform.h"
#include "platform/device/simulated/simulated_device.h"
#include "platform/device/simulated/simulated_device_options.h"
#include "platform/device/stream.h"
#include "platform/distributed/communicator.h"
#include "platform/distributed/host_communicator.h"
#include "platform/distributed/in_process/in_process_group.h"
#include "platform/distributed/simulated/simulated_communicator.h"
#include "platform/distributed/testing/rank_threads.h"

namespace ferry {
namespace {

using testing::HasSubstr;

constexpr int kRanks = 2;
constexpr int64_t kFreeBytes = 1 << 20;
constexpr double kGatherGbps = 0.05;
// Times are whole nanoseconds.
constexpr double kRounding = 1.0001;

// Ranks whose devices have links of these rates.
std::vector<absl::StatusOr<TransferRates>> measure(
    const std::vector<double>& h2d_gbps, int64_t free_bytes = kFreeBytes) {
  InProcessGroup control(kRanks);
  InProcessGroup weights(kRanks);
  std::vector<absl::StatusOr<TransferRates>> rates(kRanks);
  run_ranks(kRanks, [&](int rank) {
    const auto index = static_cast<size_t>(rank);
    SimulatedDeviceOptions options;
    options.h2d_gbps = h2d_gbps[index];
    options.check = true;
    SimulatedDevice device(options, Clock::real());
    SimulatedCommunicatorOptions link;
    link.gather_gbps = kGatherGbps;
    RankGroup group;
    group.control = control.join(rank);
    group.weights = std::make_unique<SimulatedCommunicator>(
        device, weights.join(rank), link);
    rates[index] = measure_transfer_rates(device, group, free_bytes);
    EXPECT_EQ(device.violations(), std::vector<std::string>());
    // Nobody is gone while others still measure.
    EXPECT_EQ(barrier(*group.control, group.timeout), absl::OkStatus());
  });
  return rates;
}

// A rank cannot be faster than its link is set to, and another one's would be a
// hundred times as fast.
TEST(TransferRatesTest, AreTheSlowestRanks) {
  for (const std::vector<double>& links :
       {std::vector<double>{0.1, 10}, std::vector<double>{10, 0.1}}) {
    const auto rates = measure(links);
    for (const absl::StatusOr<TransferRates>& each : rates) {
      ASSERT_EQ(each.status(), absl::OkStatus());
      for (const double rate : {each->h2d_alone, each->h2d_together}) {
        EXPECT_GT(rate, 0);
        EXPECT_LE(rate, 0.1e9 * kRounding);
      }
      EXPECT_GT(each->gather_beside_copies, 0);
      EXPECT_EQ(each->h2d_alone, rates[0]->h2d_alone);
      EXPECT_EQ(each->h2d_together, rates[0]->h2d_together);
      EXPECT_EQ(each->gather_alone, rates[0]->gather_alone);
      EXPECT_EQ(each->gather_beside_copies, rates[0]->gather_beside_copies);
    }
  }
}

TEST(TransferRatesTest, WhatArrivesInAGatherCounts) {
  const auto rates = measure({10, 10});
  ASSERT_EQ(rates[0].status(), absl::OkStatus());
  // All shares, of which the link carries those of the other ranks.
  constexpr double kMost = kGatherGbps * 1e9 * kRanks / (kRanks - 1);
  EXPECT_LE(rates[0]->gather_alone, kMost * kRounding);
  EXPECT_LE(rates[0]->gather_beside_copies, kMost * kRounding);
}

TEST(TransferRatesTest, AGatherInAPassIsNoFasterThanTheCopiesBesideIt) {
  constexpr double kCopyGbps = 0.01;
  const auto rates = measure({10, kCopyGbps});
  ASSERT_EQ(rates[0].status(), absl::OkStatus());
  // Each share comes over a link of its own.
  EXPECT_LE(rates[0]->gather_beside_copies,
            kRanks * kCopyGbps * 1e9 * kRounding);
}

// Gathers nothing; one rank needs none.
class CountingCommunicator final : public Communicator {
 public:
  explicit CountingCommunicator(FakeCudaApi& api) : api_(api) {}
  int rank() const override { return 0; }
  int size() const override { return 1; }
  absl::Status all_gather(Stream, const void*, void*, int64_t bytes) override {
    calls_.push_back(bytes);
    waits_.push_back(api_.calls("stream_synchronize"));
    return absl::OkStatus();
  }
  void abort(absl::string_view) override {}
  absl::Status status() override { return absl::OkStatus(); }

  const std::vector<int64_t>& calls() const { return calls_; }
  // How often the host had waited before each of them.
  const std::vector<int64_t>& waits() const { return waits_; }

 private:
  FakeCudaApi& api_;
  std::vector<int64_t> calls_;
  std::vector<int64_t> waits_;
};

// The device tells the time, here always the same, of several gathers for which
// the host does not wait one by one. (It is measured on a thread that has never
// seen the device, which is not the first one.)
TEST(TransferRatesTest, TheDeviceTellsWhatSeveralGathersTake) {
  constexpr double kElapsed = 1.5e-3;
  FakeCudaPlatform platform(/*index=*/1, /*devices=*/2);
  InProcessGroup control(1);
  auto counting = std::make_unique<CountingCommunicator>(platform.api());
  const CountingCommunicator& gathers = *counting;
  RankGroup group;
  group.control = control.join(0);
  group.weights = std::move(counting);
  absl::StatusOr<TransferRates> rates;
  std::thread([&] {
    rates = measure_transfer_rates(*platform.device(), group, kFreeBytes);
  }).join();
  ASSERT_EQ(rates.status(), absl::OkStatus());
  std::map<int64_t, int> in_flight;
  for (const int64_t waits : gathers.waits()) ++in_flight[waits];
  const int timed = in_flight.begin()->second - 1;
  EXPECT_GE(timed, 2);
  for (const auto& [waits, count] : in_flight) EXPECT_EQ(count, timed + 1);
  const auto bytes = static_cast<double>(gathers.calls().front());
  for (const double rate : {rates->h2d_alone, rates->h2d_together,
                            rates->gather_alone, rates->gather_beside_copies}) {
    EXPECT_NEAR(rate, timed * bytes / kElapsed, 1);
  }
  EXPECT_EQ(platform.api().misuses(), std::vector<std::string>());
  EXPECT_EQ(platform.api().contexts(), std::vector<int>{1});
}

TEST(TransferRatesTest, WithoutMemoryNobodyMeasures) {
  for (const auto& each : measure({10, 10}, /*free_bytes=*/1000)) {
    EXPECT_EQ(each.status().code(), absl::StatusCode::kResourceExhausted);
    EXPECT_THAT(std::string(each.status().message()),
                HasSubstr("ranks 0, 1: measuring takes more device memory than "
                          "1000 bytes"));
  }
}

}  // namespace
}  // namespace ferry
