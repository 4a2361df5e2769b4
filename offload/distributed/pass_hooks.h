#pragma once

#include <cstddef>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "offload/distributed/pass_engine.h"
#include "offload/forward_output.h"
#include "offload/model_hook.h"

namespace ferry {

// Lets the group's engine carry a block: it is bound before the block runs, and
// its slot is free afterwards. The engine outlives the hook.
class GatheredBlockHook final : public ModelHook {
 public:
  GatheredBlockHook(std::string name, PassEngine* engine, size_t ring,
                    size_t block)
      : name_(std::move(name)), engine_(engine), ring_(ring), block_(block) {}

  const std::string& name() const override { return name_; }
  absl::Status pre_forward() override {
    return engine_->pre_forward(ring_, block_);
  }
  absl::Status post_forward(ForwardOutput& output) override {
    return engine_->post_forward(output);
  }
  // All blocks are reset together; once is enough.
  void reset_state() override {
    if (ring_ == 0 && block_ == 0) engine_->withdraw();
  }

 private:
  const std::string name_;
  PassEngine* const engine_;
  const size_t ring_;
  const size_t block_;
};

// Ends the pass over a ring when the component that it belongs to has run.
class PassEndHook final : public ModelHook {
 public:
  PassEndHook(std::string name, PassEngine* engine, size_t ring)
      : name_(std::move(name)), engine_(engine), ring_(ring) {}

  const std::string& name() const override { return name_; }
  absl::Status pre_forward() override { return absl::OkStatus(); }
  absl::Status post_forward(ForwardOutput& /*output*/) override {
    engine_->end_pass(ring_);
    return absl::OkStatus();
  }

 private:
  const std::string name_;
  PassEngine* const engine_;
  const size_t ring_;
};

}  // namespace ferry
