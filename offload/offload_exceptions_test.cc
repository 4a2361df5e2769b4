// What is left after LibTorch, or the module, threw an exception at any step of
// switching offload on or off.

#include <c10/core/CPUAllocator.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "offload/offload_backend.h"
#include "offload/placement_backend.h"
#include "offload/testing/checked_platform.h"
#include "offload/testing/throwing_module.h"
#include "offload/testing/toy_module.h"

namespace ferry {
namespace {

// LibTorch's memory on the host, while it lives.
class ThrowingAllocator final : public at::Allocator {
 public:
  explicit ThrowingAllocator(int64_t nth)
      : fuse_(nth), real_(c10::GetCPUAllocator()) {
    c10::SetCPUAllocator(this, kPriority);
  }
  ~ThrowingAllocator() override { c10::SetCPUAllocator(real_, kPriority); }

  at::DataPtr allocate(size_t bytes) override {
    fuse_.burn(std::bad_alloc());
    return real_->allocate(bytes);
  }
  at::DeleterFnPtr raw_deleter() const override { return real_->raw_deleter(); }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    real_->copy_data(to, from, bytes);
  }
  bool is_blown() const { return fuse_.is_blown(); }

 private:
  static constexpr uint8_t kPriority = 1;

  Fuse fuse_;
  c10::Allocator* const real_;
};

class OffloadExceptionsTest : public testing::TestWithParam<bool> {
 protected:
  OffloadExceptionsTest() {
    options_.encoders = 1;
    options_.shares = true;
    options_.blocks = 3;
  }

  std::unique_ptr<OffloadBackend> make_backend() {
    return std::make_unique<PlacementBackend>(
        platform_, GetParam() ? model_level_policy(false) : layerwise_policy(),
        PlacementBackendOptions{2});
  }

  void expect_untouched(const ToyModule& module,
                        const std::vector<std::string>& state) {
    EXPECT_EQ(module.hook_names(), std::vector<std::string>());
    EXPECT_EQ(state_of(module), state);
    EXPECT_EQ(platform_.simulated_device().stats().device.bytes_in_use, 0);
  }

  SimulatedPlatform platform_{checked_device()};
  ToyOptions options_;
};

TEST_P(OffloadExceptionsTest, AnAccessorThatThrowsIsAnError) {
  int thrown = 0;
  for (int64_t nth = 1;; ++nth) {
    SCOPED_TRACE(nth);
    ToyModule module(options_);
    const std::vector<std::string> state = state_of(module);
    ThrowingModule throwing(module, nth);
    const auto backend = make_backend();
    const absl::Status status = backend->enable(throwing);
    if (!throwing.is_blown()) {
      EXPECT_EQ(status, absl::OkStatus());
      break;
    }
    ++thrown;
    EXPECT_EQ(status.code(), absl::StatusCode::kInternal) << status;
    EXPECT_EQ(status.message(), "enable: the module's attribute is gone");
    EXPECT_FALSE(backend->is_enabled());
    expect_untouched(module, state);
    EXPECT_EQ(backend->enable(module), absl::OkStatus());
  }
  EXPECT_GE(thrown, 10);
}

TEST_P(OffloadExceptionsTest, MemoryThatEndsWhileItIsEnabledUndoesEverything) {
  int thrown = 0;
  for (int64_t nth = 1;; ++nth) {
    SCOPED_TRACE(nth);
    ToyModule module(options_);
    const std::vector<std::string> state = state_of(module);
    const auto backend = make_backend();
    absl::Status status;
    bool is_blown = false;
    {
      const ThrowingAllocator allocator(nth);
      status = backend->enable(module);
      is_blown = allocator.is_blown();
    }
    if (!is_blown) {
      EXPECT_EQ(status, absl::OkStatus());
      break;
    }
    ++thrown;
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
    EXPECT_FALSE(backend->is_enabled());
    expect_untouched(module, state);
    EXPECT_EQ(backend->enable(module), absl::OkStatus());
  }
  EXPECT_GE(thrown, 10);
}

TEST_P(OffloadExceptionsTest, MemoryThatEndsWhileItIsDisabledLosesNothing) {
  int thrown = 0;
  for (int64_t nth = 1;; ++nth) {
    SCOPED_TRACE(nth);
    ToyModule module(options_);
    const std::vector<std::string> state = state_of(module);
    auto backend = make_backend();
    ASSERT_EQ(backend->enable(module), absl::OkStatus());
    absl::Status status;
    bool is_blown = false;
    {
      const ThrowingAllocator allocator(nth);
      status = backend->disable();
      is_blown = allocator.is_blown();
    }
    if (!is_blown) {
      EXPECT_EQ(status, absl::OkStatus());
      break;
    }
    ++thrown;
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
    EXPECT_TRUE(backend->is_enabled());
    // Every other time by the destructor.
    if (nth % 2 == 0) EXPECT_EQ(backend->disable(), absl::OkStatus());
    backend.reset();
    expect_untouched(module, state);
  }
  EXPECT_GE(thrown, 10);
}

TEST_P(OffloadExceptionsTest, MemoryThatEndsInAPassFailsThatPassAlone) {
  options_.returns_views = true;
  ToyModule twin(options_);
  ToyModule module(options_);
  const auto backend = make_backend();
  ASSERT_EQ(backend->enable(module), absl::OkStatus());
  const at::Tensor x = toy_input();
  for (size_t component = 0; component < module.components().size();
       ++component) {
    int thrown = 0;
    for (int64_t nth = 1;; ++nth) {
      SCOPED_TRACE(nth);
      ASSERT_EQ(module.written_state().reset(), absl::OkStatus());
      ASSERT_EQ(twin.written_state().reset(), absl::OkStatus());
      absl::Status status;
      bool is_blown = false;
      {
        const ThrowingAllocator allocator(nth);
        status = module.run(component, x).status();
        is_blown = allocator.is_blown();
      }
      if (!is_blown) {
        EXPECT_EQ(status, absl::OkStatus());
        break;
      }
      ++thrown;
      EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
      ASSERT_EQ(module.written_state().reset(), absl::OkStatus());
      const auto next = module.run(component, x);
      ASSERT_TRUE(next.ok()) << next.status();
      EXPECT_EQ(bytes_of(*next), bytes_of(*twin.run(component, x)));
    }
    EXPECT_GE(thrown, 10);
  }
  EXPECT_EQ(backend->disable(), absl::OkStatus());
}

INSTANTIATE_TEST_SUITE_P(Backends, OffloadExceptionsTest, testing::Bool());

}  // namespace
}  // namespace ferry
