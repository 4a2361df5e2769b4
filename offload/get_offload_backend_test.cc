#include "offload/get_offload_backend.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "offload/offload_config.h"
#include "platform/device/device.h"
#include "platform/device/get_platform.h"
#include "platform/device/memory_info.h"
#include "platform/device/platform.h"

namespace ferry {
namespace {

using Mode = OffloadConfig::Mode;

// A platform that could offload.
class AblePlatform : public Platform {
 public:
  std::string name() const override { return "able"; }
  std::string torch_device() const override { return "cpu"; }
  absl::StatusOr<MemoryInfo> memory_info() const override {
    return MemoryInfo{};
  }
  bool supports_cpu_offload() const override { return true; }
  std::string offload_unsupported_reason() const override { return ""; }
  Device* device() override { return nullptr; }
  absl::Status synchronize() override { return absl::OkStatus(); }
  void empty_cache() override {}
};

TEST(GetOffloadBackend, CpuGetsNoneWhateverWasAsked) {
  const std::unique_ptr<Platform> cpu = *get_platform({"cpu"});
  for (Mode mode : {Mode::kAuto, Mode::kModule, Mode::kLayer}) {
    const auto choice = get_offload_backend(OffloadConfig{mode}, *cpu);
    ASSERT_TRUE(choice.ok()) << choice.status();
    EXPECT_EQ(choice->backend, nullptr);
    EXPECT_EQ(choice->reason.find("offload unsupported on platform cpu: "), 0u)
        << choice->reason;
  }
}

TEST(GetOffloadBackend, NoneIsNotAskedFor) {
  AblePlatform able;
  const auto choice = get_offload_backend(OffloadConfig{Mode::kNone}, able);
  ASSERT_TRUE(choice.ok()) << choice.status();
  EXPECT_EQ(choice->backend, nullptr);
  EXPECT_EQ(choice->reason, "not asked for");
}

TEST(GetOffloadBackend, NeverPretendsToOffload) {
  AblePlatform able;
  const auto choice = get_offload_backend(OffloadConfig{Mode::kLayer}, able);
  EXPECT_EQ(choice.status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(choice.status().message(),
            "offload.mode: \"layer\" has no backend on platform able; "
            "\"none\" runs without offloading");
}

}  // namespace
}  // namespace ferry
