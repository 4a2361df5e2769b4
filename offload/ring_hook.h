#pragma once

#include <cstddef>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "offload/block_ring.h"
#include "offload/forward_output.h"
#include "offload/model_hook.h"

namespace ferry {

// Lets a ring carry a block: it is bound before the block runs, and its slot
// is free afterwards. The ring outlives the hook.
class RingHook final : public ModelHook {
 public:
  RingHook(std::string name, BlockRing* ring, size_t block)
      : name_(std::move(name)), ring_(ring), block_(block) {}

  const std::string& name() const override { return name_; }
  absl::Status pre_forward() override { return ring_->pre_forward(block_); }
  absl::Status post_forward(ForwardOutput& output) override {
    return ring_->post_forward(block_, output);
  }
  // All blocks of a ring are reset together; once is enough.
  void reset_state() override {
    if (block_ == 0) ring_->reset_state();
  }

 private:
  const std::string name_;
  BlockRing* const ring_;
  const size_t block_;
};

}  // namespace ferry
