#include "platform/distributed/testing/store_conformance.h"

#include <cstdint>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ferry {
namespace {

using ::testing::HasSubstr;

constexpr absl::Duration kGenerous = absl::Seconds(60);

}  // namespace

TEST_P(StoreConformanceTest, AValueIsThereForEveryRank) {
  ASSERT_TRUE(store(0).set("key", "value").ok());
  EXPECT_EQ(*store(0).get("key", absl::ZeroDuration()), "value");
  EXPECT_EQ(*store(1).get("key", kGenerous), "value");
}

TEST_P(StoreConformanceTest, TheLatestValueCounts) {
  ASSERT_TRUE(store(0).set("key", "a longer value").ok());
  ASSERT_TRUE(store(1).set("key", "new").ok());
  EXPECT_EQ(*store(0).get("key", kGenerous), "new");
}

TEST_P(StoreConformanceTest, KeysAndValuesMayHoldAnything) {
  std::string bytes;
  for (int i = 0; i < 256; ++i) bytes.push_back(static_cast<char>(i));
  const std::vector<std::string> keys = {
      "a",     "A",
      "a/b",   "a/../b",
      ".",     "..",
      "",      "a b%2F\n\xFF",
      "a%2Fb", "0123456789abcdef0123456789abcdef/weights/rank/12"};
  for (const std::string& key : keys) {
    ASSERT_TRUE(store(0).set(key, absl::StrCat(bytes, key)).ok()) << key;
  }
  for (const std::string& key : keys) {
    EXPECT_EQ(*store(1).get(key, kGenerous), absl::StrCat(bytes, key)) << key;
  }
  ASSERT_TRUE(store(0).set("empty", "").ok());
  EXPECT_EQ(*store(1).get("empty", kGenerous), "");
  const std::string large(1 << 20, 'x');
  ASSERT_TRUE(store(0).set("large", large).ok());
  EXPECT_EQ(*store(1).get("large", kGenerous), large);
}

TEST_P(StoreConformanceTest, GetWaitsForTheValue) {
  std::thread late([this] {
    // Not before the other one waits, most of the time.
    EXPECT_FALSE(store(1).get("never", absl::Milliseconds(20)).ok());
    EXPECT_TRUE(store(1).set("key", "at last").ok());
  });
  EXPECT_EQ(*store(0).get("key", kGenerous), "at last");
  late.join();
}

TEST_P(StoreConformanceTest, OneObjectServesAThreadThatWaitsAndOneThatSets) {
  std::thread waits(
      [this] { EXPECT_EQ(*store(0).get("key", kGenerous), "value"); });
  EXPECT_FALSE(store(0).get("never", absl::Milliseconds(20)).ok());
  EXPECT_TRUE(store(0).set("key", "value").ok());
  waits.join();
}

TEST_P(StoreConformanceTest, GetEndsInTimeAndNamesTheKey) {
  for (const absl::Duration timeout :
       {absl::ZeroDuration(), absl::Milliseconds(5)}) {
    const absl::StatusOr<std::string> value = store().get("no such", timeout);
    EXPECT_EQ(value.status().code(), absl::StatusCode::kDeadlineExceeded)
        << value.status();
    EXPECT_THAT(std::string(value.status().message()), HasSubstr("no such"));
  }
  // And the store is as good as before.
  ASSERT_TRUE(store().set("no such", "now").ok());
  EXPECT_EQ(*store().get("no such", kGenerous), "now");
}

TEST_P(StoreConformanceTest, AddCounts) {
  EXPECT_EQ(*store(0).add("number", 5), 5);
  EXPECT_EQ(*store(1).add("number", -7), -2);
  EXPECT_EQ(*store(0).add("number", 0), -2);
  EXPECT_EQ(*store(0).add("other", 0), 0);
}

TEST_P(StoreConformanceTest, NumbersAndValuesAreApart) {
  ASSERT_TRUE(store(0).set("key", "no number").ok());
  EXPECT_EQ(*store(1).add("key", 3), 3);
  EXPECT_EQ(*store(0).get("key", kGenerous), "no number");
  ASSERT_TRUE(store(0).add("number", 1).ok());
  EXPECT_EQ(store(1).get("number", absl::ZeroDuration()).status().code(),
            absl::StatusCode::kDeadlineExceeded);
}

TEST_P(StoreConformanceTest, NoSumIsSeenTwice) {
  constexpr int kThreads = 4;
  constexpr int kAdds = 25;
  std::vector<std::vector<int64_t>> sums(kThreads);
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([this, i, &sums] {
      for (int k = 0; k < kAdds; ++k) {
        const absl::StatusOr<int64_t> sum = store(i % 2).add("number", 1);
        ASSERT_TRUE(sum.ok()) << sum.status();
        sums[static_cast<size_t>(i)].push_back(*sum);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::set<int64_t> all;
  for (const auto& some : sums) all.insert(some.begin(), some.end());
  EXPECT_EQ(all.size(), static_cast<size_t>(kThreads * kAdds));
  EXPECT_EQ(*all.rbegin(), kThreads * kAdds);
}

}  // namespace ferry
