#include "offload/offload_config.h"

#include <gtest/gtest.h>

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace ferry {
namespace {

using Mode = OffloadConfig::Mode;

TEST(OffloadConfig, ReadsEveryMode) {
  EXPECT_EQ(OffloadConfig::from_mode("")->mode, Mode::kAuto);
  for (Mode mode : {Mode::kAuto, Mode::kNone, Mode::kModule, Mode::kLayer}) {
    const auto config = OffloadConfig::from_mode(to_string(mode));
    ASSERT_TRUE(config.ok()) << config.status();
    EXPECT_EQ(config->mode, mode);
  }
}

TEST(OffloadConfig, RefusesOtherModesAndSaysWhatIsAllowed) {
  for (absl::string_view mode : {"Layer", " layer", "layerwise", "lay\ner"}) {
    const absl::Status status = OffloadConfig::from_mode(mode).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << mode;
    const std::string message(status.message());
    EXPECT_EQ(message.find("offload.mode: "), 0u) << message;
    EXPECT_NE(message.find("\"auto\", \"none\", \"module\", \"layer\""),
              std::string::npos);
    EXPECT_EQ(message.find('\n'), std::string::npos);
  }
}

TEST(OffloadConfig, AHugeModeMakesNoHugeMessage) {
  const std::string mode(1 << 20, 'x');
  EXPECT_LT(OffloadConfig::from_mode(mode).status().message().size(), 256u);
}

}  // namespace
}  // namespace ferry
