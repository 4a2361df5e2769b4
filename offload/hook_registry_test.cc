#include "offload/hook_registry.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "offload/forward_output.h"
#include "offload/model_hook.h"
#include "offload/testing/toy_module.h"

namespace ferry {
namespace {

using Log = std::vector<std::string>;

// Writes down what happens to it, and fails where it is told to.
class LoggingHook : public ModelHook {
 public:
  LoggingHook(std::string name, Log* log, std::string fails_at = "")
      : name_(std::move(name)), log_(log), fails_at_(std::move(fails_at)) {}
  ~LoggingHook() override { log_->push_back(name_ + " gone"); }

  const std::string& name() const override { return name_; }
  absl::Status initialize_hook() override { return act("init"); }
  absl::Status pre_forward() override { return act("pre"); }
  absl::Status post_forward(ForwardOutput&) override { return act("post"); }
  void reset_state() override { (void)act("reset"); }

 private:
  absl::Status act(const std::string& what) {
    log_->push_back(name_ + " " + what);
    if (what == fails_at_) return absl::DataLossError(name_ + " " + what);
    return absl::OkStatus();
  }

  const std::string name_;
  Log* const log_;
  const std::string fails_at_;
};

class HookRegistryTest : public testing::Test {
 protected:
  absl::Status add(const std::string& name, const std::string& fails_at = "") {
    return registry_.add(std::make_unique<LoggingHook>(name, &log_, fails_at));
  }

  Log log_;
  TensorListOutput output_{{}};
  HookRegistry registry_{"transformer.blocks.3"};
};

TEST_F(HookRegistryTest, RunsPreInOrderAndPostReversed) {
  ASSERT_TRUE(add("b").ok());
  ASSERT_TRUE(add("a").ok());
  log_.clear();
  ASSERT_TRUE(registry_.pre_forward().ok());
  ASSERT_TRUE(registry_.post_forward(output_).ok());
  EXPECT_EQ(log_, (Log{"b pre", "a pre", "a post", "b post"}));
}

TEST_F(HookRegistryTest, NestedCallsRunTheHooksOnce) {
  ASSERT_TRUE(add("a").ok());
  log_.clear();
  ASSERT_TRUE(registry_.pre_forward().ok());
  ASSERT_TRUE(registry_.pre_forward().ok());
  ASSERT_TRUE(registry_.post_forward(output_).ok());
  EXPECT_EQ(log_, (Log{"a pre"}));
  ASSERT_TRUE(registry_.post_forward(output_).ok());
  EXPECT_EQ(log_, (Log{"a pre", "a post"}));
}

TEST_F(HookRegistryTest, NamesAreUnique) {
  ASSERT_TRUE(add("a").ok());
  const absl::Status status = add("a");
  EXPECT_EQ(status.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(status.message(),
            "transformer.blocks.3: has a hook called \"a\" already");
  EXPECT_EQ(registry_.names(), (Log{"a"}));
}

TEST_F(HookRegistryTest, RemovesOnlyTheNamedHook) {
  ASSERT_TRUE(add("a").ok());
  ASSERT_TRUE(add("b").ok());
  ASSERT_TRUE(registry_.remove("a").ok());
  EXPECT_EQ(registry_.names(), (Log{"b"}));
  EXPECT_EQ(log_.back(), "a gone");
  EXPECT_EQ(registry_.remove("a").code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(registry_.names(), (Log{"b"}));
}

TEST_F(HookRegistryTest, AHookThatCannotInitializeIsNotAdded) {
  EXPECT_EQ(add("a", "init").code(), absl::StatusCode::kDataLoss);
  EXPECT_TRUE(registry_.empty());
}

TEST_F(HookRegistryTest, NothingChangesWhileTheModuleRuns) {
  ASSERT_TRUE(add("a").ok());
  ASSERT_TRUE(registry_.pre_forward().ok());
  EXPECT_EQ(add("b").code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(registry_.remove("a").code(),
            absl::StatusCode::kFailedPrecondition);
  ASSERT_TRUE(registry_.post_forward(output_).ok());
  EXPECT_TRUE(add("b").ok());
}

TEST_F(HookRegistryTest, AFailedPreHookStopsThoseAfterIt) {
  ASSERT_TRUE(add("a").ok());
  ASSERT_TRUE(add("b", "pre").ok());
  ASSERT_TRUE(add("c").ok());
  log_.clear();
  EXPECT_EQ(registry_.pre_forward().message(), "b pre");
  EXPECT_EQ(log_, (Log{"a pre", "b pre"}));
}

TEST_F(HookRegistryTest, AFailedPostHookStopsNoOther) {
  ASSERT_TRUE(add("a").ok());
  ASSERT_TRUE(add("b", "post").ok());
  ASSERT_TRUE(registry_.pre_forward().ok());
  log_.clear();
  EXPECT_EQ(registry_.post_forward(output_).message(), "b post");
  EXPECT_EQ(log_, (Log{"b post", "a post"}));
}

TEST_F(HookRegistryTest, ResetForgetsAnAbandonedPass) {
  ASSERT_TRUE(add("a").ok());
  ASSERT_TRUE(registry_.pre_forward().ok());
  ASSERT_TRUE(registry_.pre_forward().ok());
  log_.clear();
  registry_.reset_state();
  ASSERT_TRUE(registry_.pre_forward().ok());
  ASSERT_TRUE(registry_.post_forward(output_).ok());
  EXPECT_EQ(log_, (Log{"a reset", "a pre", "a post"}));
  EXPECT_TRUE(registry_.remove("a").ok());
}

}  // namespace
}  // namespace ferry
