#pragma once

#include <string>

#include "absl/status/status.h"
#include "offload/forward_output.h"

namespace ferry {

// Acts before and after a module's forward passes.
//
// A backend installs hooks in the HookRegistry of component roots and blocks.
//
// Ownership: the registry owns its hooks.
// Threads: called on the thread that runs the module.
// Errors: an error of pre_forward or post_forward ends the pass there and
//   then; the caller of the module gets exactly this status, and reset_state()
//   follows before anything runs again. What LibTorch throws passes through.
class ModelHook {
 public:
  virtual ~ModelHook() = default;

  // Unique in a registry, constant; by it the hook is removed.
  virtual const std::string& name() const = 0;

  // Called once, when the hook is added; after an error it is not.
  virtual absl::Status initialize_hook() { return absl::OkStatus(); }

  // Before the outermost of nested calls into the module. Inputs are ready.
  virtual absl::Status pre_forward() = 0;
  // After the outermost of nested calls into the module, when it returns
  // `output`, which the hook may change.
  virtual absl::Status post_forward(ForwardOutput& output) = 0;

  // A pass was abandoned: an exception or a hook's error ended it somewhere,
  // so post_forward may be missing. Returns the hook to where it was between
  // passes. Called for every hook of the pipeline, also those not reached.
  virtual void reset_state() {}
};

}  // namespace ferry
