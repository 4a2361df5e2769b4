#include "offload/hook_registry.h"

#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>
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

TEST_F(HookRegistryTest, IsLeftOnlyWhenItWasEntered) {
  ASSERT_TRUE(add("a").ok());
  for (const bool was_entered : {false, true}) {
    if (was_entered) {
      ASSERT_TRUE(registry_.pre_forward().ok());
      ASSERT_TRUE(registry_.post_forward(output_).ok());
    }
    log_.clear();
    const absl::Status status = registry_.post_forward(output_);
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_EQ(status.message(),
              "transformer.blocks.3: is left, and was not entered");
    EXPECT_EQ(log_, Log());
  }
  // Not entered a negative number of times.
  ASSERT_TRUE(registry_.pre_forward().ok());
  EXPECT_EQ(log_, (Log{"a pre"}));
}

// Throws from the method that it is told.
class ThrowingHook : public ModelHook {
 public:
  using Throw = std::function<void()>;
  ThrowingHook(std::string throws_at, Throw throws)
      : throws_at_(std::move(throws_at)), throws_(std::move(throws)) {}

  const std::string& name() const override { return throws_at_; }
  absl::Status initialize_hook() override { return act("init"); }
  absl::Status pre_forward() override { return act("pre"); }
  absl::Status post_forward(ForwardOutput&) override { return act("post"); }
  void reset_state() override { (void)act("reset"); }

 private:
  absl::Status act(const std::string& what) {
    if (what == throws_at_) throws_();
    return absl::OkStatus();
  }

  const std::string throws_at_;
  const Throw throws_;
};

struct Thrown {
  ThrowingHook::Throw throws;
  absl::StatusCode code;
  std::string text;
};

std::vector<Thrown> everything_that_is_thrown() {
  return {{[] { TORCH_CHECK(false, "a shape is wrong"); },
           absl::StatusCode::kInternal, "a shape is wrong"},
          {[] { throw std::bad_alloc(); }, absl::StatusCode::kResourceExhausted,
           "out of device memory"},
          {[] { throw std::out_of_range("no such key"); },
           absl::StatusCode::kInternal, "no such key"},
          {[] { throw 7; }, absl::StatusCode::kInternal,
           "an exception of an unknown type"}};
}

TEST(HookRegistryExceptionTest, WhatAHookThrowsIsAStatusOfItsModule) {
  for (const Thrown& thrown : everything_that_is_thrown()) {
    const auto expect = [&](const absl::Status& status) {
      EXPECT_EQ(status.code(), thrown.code);
      EXPECT_EQ(status.message(), "block: " + thrown.text);
    };
    TensorListOutput output{{}};
    Log log;
    HookRegistry registry("block");
    expect(registry.add(std::make_unique<ThrowingHook>("init", thrown.throws)));
    EXPECT_TRUE(registry.empty());
    ASSERT_TRUE(
        registry.add(std::make_unique<ThrowingHook>("pre", thrown.throws))
            .ok());
    expect(registry.pre_forward());
    registry.reset_state();
    ASSERT_TRUE(registry.remove("pre").ok());
    // The hooks after it run all the same.
    ASSERT_TRUE(registry.add(std::make_unique<LoggingHook>("a", &log)).ok());
    for (const std::string at : {"post", "reset"}) {
      ASSERT_TRUE(
          registry.add(std::make_unique<ThrowingHook>(at, thrown.throws)).ok());
    }
    ASSERT_TRUE(registry.add(std::make_unique<LoggingHook>("b", &log)).ok());
    ASSERT_TRUE(registry.pre_forward().ok());
    log.clear();
    expect(registry.post_forward(output));
    registry.reset_state();
    EXPECT_EQ(log, (Log{"b post", "a post", "a reset", "b reset"}));
  }
}

}  // namespace
}  // namespace ferry
