#pragma once

#include <functional>
#include <memory>

#include "gtest/gtest.h"
#include "platform/distributed/store.h"

namespace ferry {

// One store, as several ranks see it. Views may be one object.
class StoreViews {
 public:
  virtual ~StoreViews() = default;
  // Lives as long as this.
  virtual Store& view(int rank) = 0;
};

// What every Store does. Each implementation instantiates it, with a function
// that makes an empty store:
//
//   INSTANTIATE_TEST_SUITE_P(File, StoreConformanceTest, Values(&make_views));
using MakeStoreViews = std::function<std::unique_ptr<StoreViews>()>;
class StoreConformanceTest : public testing::TestWithParam<MakeStoreViews> {
 protected:
  StoreConformanceTest() : views_(GetParam()()) {}

  Store& store(int rank = 0) { return views_->view(rank); }

 private:
  std::unique_ptr<StoreViews> views_;
};

}  // namespace ferry
