#include "platform/distributed/in_process/in_process_store.h"

#include <memory>

#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "platform/distributed/prefix_store.h"
#include "platform/distributed/store.h"
#include "platform/distributed/testing/store_conformance.h"

namespace ferry {
namespace {

class InProcessViews final : public StoreViews {
 public:
  Store& view(int /*rank*/) override { return store_; }

 private:
  InProcessStore store_;
};

class PrefixViews final : public StoreViews {
 public:
  Store& view(int rank) override { return rank == 0 ? first_ : second_; }

 private:
  InProcessStore store_;
  PrefixStore first_{store_, "generation"};
  PrefixStore second_{store_, "generation"};
};

INSTANTIATE_TEST_SUITE_P(InProcess, StoreConformanceTest, testing::Values([] {
                           return std::make_unique<InProcessViews>();
                         }));
INSTANTIATE_TEST_SUITE_P(Prefix, StoreConformanceTest, testing::Values([] {
                           return std::make_unique<PrefixViews>();
                         }));

TEST(PrefixStoreTest, GenerationsDoNotMeet) {
  InProcessStore store;
  PrefixStore old_one(store, "1");
  PrefixStore new_one(store, "2");
  ASSERT_TRUE(old_one.set("rank/0", "old").ok());
  ASSERT_TRUE(old_one.add("joined", 1).ok());
  EXPECT_FALSE(new_one.get("rank/0", absl::ZeroDuration()).ok());
  EXPECT_EQ(*new_one.add("joined", 1), 1);
  EXPECT_EQ(*store.get("1/rank/0", absl::ZeroDuration()), "old");
}

}  // namespace
}  // namespace ferry
