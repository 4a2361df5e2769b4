#include "offload/distributed/shared_images.h"

#include <ATen/Parallel.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "offload/offload_stats.h"
#include "offload/testing/checked_platform.h"
#include "offload/testing/toy_group.h"
#include "offload/testing/toy_module.h"
#include "platform/device/host_arena.h"
#include "platform/device/simulated/fault_plan.h"
#include "platform/device/simulated/simulated_platform.h"
#include "platform/distributed/testing/rank_threads.h"
#include "platform/os/shared_memory.h"
#include "platform/os/unique_fd.h"

namespace ferry {
namespace {

using testing::AllOf;
using testing::Each;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr int kRanks = 3;

ToyGroupOptions sharing_options() {
  at::set_num_threads(1);
  ToyGroupOptions options;
  options.ranks = kRanks;
  options.device = checked_device();
  options.gathers = false;
  options.shares_images = true;
  return options;
}

std::string text_of(const HostArena& arena, int64_t bytes) {
  HostAccess access = *arena.access(AccessKind::kRead, 0, bytes);
  std::string text(access.data(), static_cast<size_t>(bytes));
  EXPECT_EQ(access.end(), absl::OkStatus());
  return text;
}

TEST(SharedImagesTest, OthersReadWhatTheFirstWrote) {
  SimulatedPlatform platform(checked_device());
  SimulatedDevice& device = platform.simulated_device();
  const UniqueFd file = *make_shared_memory("ferry-host");
  SharedImages first(file.get(), /*writes=*/true);
  SharedImages second(file.get(), /*writes=*/false);
  const auto write = [](const char* text) {
    return [text](char* data) { std::memcpy(data, text, std::strlen(text)); };
  };
  const HostArena mine = *first.add(device, 5000, "one", write("hello"));
  const HostArena next = *first.add(device, 3, "two", write("you"));
  ASSERT_EQ(SharedImages::seal(file.get()), absl::OkStatus());
  const auto never = [](char* /*data*/) { FAIL(); };
  const HostArena one = *second.add(device, 5000, "one", never);
  const HostArena two = *second.add(device, 3, "two", never);
  EXPECT_EQ(text_of(one, 5), "hello");
  EXPECT_EQ(text_of(two, 3), "you");
  EXPECT_EQ(text_of(mine, 5), "hello");
  EXPECT_EQ(text_of(next, 3), "you");
  // A file that is too short, and one that cannot be taken away.
  EXPECT_FALSE(second.add(device, 1, "three", never).ok());
  EXPECT_FALSE(SharedImages::clear(file.get()).ok());
  EXPECT_EQ(one.access(AccessKind::kWrite, 0, 1).status().code(),
            absl::StatusCode::kPermissionDenied);
}

TEST(SharedImagesTest, WhatIsClearedIsWrittenAgain) {
  SimulatedPlatform platform(checked_device());
  SimulatedDevice& device = platform.simulated_device();
  const UniqueFd file = *make_shared_memory("ferry-host");
  for (const char* text : {"something long", "short"}) {
    SharedImages images(file.get(), /*writes=*/true);
    const HostArena arena = *images.add(device, 14, text, [&](char* data) {
      std::memcpy(data, text, std::strlen(text));
    });
    std::string expected = text;
    expected.resize(14);
    EXPECT_EQ(text_of(arena, 14), expected);
    // Its pages are gone with it.
    ASSERT_EQ(SharedImages::clear(file.get()), absl::OkStatus());
    EXPECT_EQ(::lseek(file.get(), 0, SEEK_END), 0);
  }
}

TEST(SharedImagesTest, TheHostHoldsOneCopy) {
  for (const bool gathers : {false, true}) {
    ToyGroupOptions options = sharing_options();
    options.gathers = gathers;
    options.toy.counts = false;
    options.toy.vaes = 1;
    options.resident_layers = gathers ? 0 : 2;
    ToyGroup group(options);
    ASSERT_THAT(group.enable(), Each(absl::OkStatus()));
    int64_t host_bytes = 0;
    for (int rank = 0; rank < kRanks; ++rank) {
      const OffloadStats stats = group.rank(rank).backend->stats();
      host_bytes += stats.host_bytes;
      EXPECT_GT(stats.resident_bytes, 0);
      if (gathers) continue;
      EXPECT_EQ(group.rank(rank)
                    .platform->simulated_device()
                    .stats()
                    .host.bytes_in_use,
                0);
    }
    const OffloadStats one = group.rank(0).backend->stats();
    const int64_t weights = one.resident_bytes + one.streamed_bytes;
    // Shares are rounded up.
    EXPECT_GE(host_bytes, weights);
    EXPECT_LE(host_bytes, gathers ? weights + weights / 10 : weights);
    run_ranks(kRanks, [&](int rank) { group.expect_request(rank, 3); });
    EXPECT_THAT(group.violations(), IsEmpty());
  }
}

TEST(SharedImagesTest, DisabledEachHasTensorsOfItsOwn) {
  ToyGroupOptions options = sharing_options();
  ToyGroup group(options);
  // The second time each has images of its own.
  for (int round = 0; round < 2; ++round) {
    ASSERT_THAT(group.enable(), Each(absl::OkStatus()));
    run_ranks(kRanks, [&](int rank) { group.expect_request(rank, 1 + rank); });
    ASSERT_THAT(group.disable(), Each(absl::OkStatus()));
    for (int rank = 0; rank < kRanks; ++rank) {
      EXPECT_EQ(state_of(*group.rank(rank).module),
                package_state_of(*group.rank(rank).twin));
      EXPECT_THAT(group.rank(rank).module->hook_names(), IsEmpty());
    }
  }
  for (const at::Tensor& tensor : group.rank(0).module->all_tensors()) {
    tensor.zero_();
  }
  EXPECT_EQ(state_of(*group.rank(1).module),
            package_state_of(*group.rank(1).twin));
  EXPECT_THAT(group.violations(), IsEmpty());
}

// Before anything was shared all ranks may try again, later they cannot.
TEST(SharedImagesTest, AStartThatFailsOnOneRankFailsOnAll) {
  struct Case {
    int rank;
    int64_t nth;
    bool may_try_again;
  };
  for (const Case& c :
       {Case{0, 1, true}, Case{0, 3, false}, Case{2, 1, false}}) {
    ToyGroup group(sharing_options());
    group.rank(c.rank).platform->simulated_device().faults().fail(
        FaultPoint::kAllocateHost, c.nth);
    for (const absl::Status& status : group.enable()) {
      EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
      EXPECT_THAT(status.message(), HasSubstr(absl::StrCat("rank ", c.rank)));
    }
    for (int rank = 0; rank < kRanks; ++rank) {
      EXPECT_FALSE(group.rank(rank).backend->is_enabled());
      EXPECT_THAT(group.rank(rank).module->hook_names(), IsEmpty());
      EXPECT_EQ(group.rank(rank)
                    .platform->simulated_device()
                    .stats()
                    .device.bytes_in_use,
                0);
    }
    const absl::Status again = group.enable()[0];
    EXPECT_EQ(again.ok(), c.may_try_again) << again;
    if (again.ok()) {
      group.expect_request(0, 2);
    } else {
      EXPECT_THAT(again.message(), HasSubstr("load the pipeline again"));
    }
  }
}

TEST(SharedImagesTest, RanksWithOtherWeightsShareNothing) {
  ToyGroup group(sharing_options());
  group.rank(1).module->all_tensors()[0].data_ptr<float>()[0] += 1;
  for (const absl::Status& status : group.enable()) {
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(status.message(), AllOf(HasSubstr("ranks disagree"),
                                        HasSubstr("ranks 0, 2: version")));
  }
}

// One rank's device is fuller, and all do what that one has to.
TEST(SharedImagesTest, AllPlanForTheLeastMemory) {
  ToyGroupOptions options = sharing_options();
  options.automatic = true;
  options.toy.blocks = 9;
  options.toy.counts = false;
  int64_t weights = 0;
  {
    ToyGroup group(options);
    ASSERT_THAT(group.enable(), Each(absl::OkStatus()));
    EXPECT_EQ(group.rank(0).backend->stats().streamed_bytes, 0);
    weights = group.rank(0).backend->stats().resident_bytes;
  }
  ToyGroup group(options);
  const auto occupied = group.rank(1).platform->simulated_device().allocate(
      options.device.memory_bytes - weights, "occupied");
  ASSERT_TRUE(occupied.ok());
  ASSERT_THAT(group.enable(), Each(absl::OkStatus()));
  const int64_t streamed = group.rank(1).backend->stats().streamed_bytes;
  EXPECT_GT(streamed, 0);
  EXPECT_EQ(group.rank(0).backend->stats().streamed_bytes, streamed);
  run_ranks(kRanks, [&](int rank) { group.expect_request(rank, 2); });
}

}  // namespace
}  // namespace ferry
