#include "platform/base/error_info.h"

#include <gtest/gtest.h>

namespace ferry {
namespace {

TEST(ErrorInfoTest, ReturnsWhatWasAttached) {
  const absl::Status status =
      make_error(absl::StatusCode::kInternal, "step 3 gave NaN",
                 {"NON_FINITE_OUTPUT", {{"step", "3"}, {"empty", ""}}});
  const std::optional<ErrorInfo> info = get_error_info(status);
  ASSERT_TRUE(info.has_value());
  EXPECT_EQ(info->reason, "NON_FINITE_OUTPUT");
  EXPECT_EQ(info->metadata,
            (std::map<std::string, std::string>{{"step", "3"}, {"empty", ""}}));
}

TEST(ErrorInfoTest, KeepsTheLastOne) {
  absl::Status status = make_error(absl::StatusCode::kInternal, "", {"A", {}});
  status = with_error_info(status, {"B", {}});
  EXPECT_EQ(get_error_info(status)->reason, "B");
}

TEST(ErrorInfoTest, IsAbsentFromPlainErrors) {
  EXPECT_FALSE(get_error_info(absl::InternalError("x")).has_value());
  EXPECT_FALSE(get_error_info(absl::OkStatus()).has_value());
}

TEST(ErrorInfoTest, AValueWithNulDoesNotShiftTheOthers) {
  const absl::Status status =
      make_error(absl::StatusCode::kInternal, "",
                 {"A", {{"k", std::string("a\0b", 3)}, {"l", "c"}}});
  EXPECT_EQ(get_error_info(status)->metadata.at("l"), "c");
}

}  // namespace
}  // namespace ferry
