#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "offload/forward_output.h"
#include "offload/model_hook.h"

namespace ferry {

// The hooks of one module: of a component root or of a block.
//
// pre_forward() runs the hooks in the order in which they were added,
// post_forward() in the reverse order. Calls nest by count: a module whose
// method calls another of its own methods is entered once, and the hooks run
// at the outermost call only.
//
//   idle ──pre_forward()──► running(1) ──pre_forward()──► running(2) …
//    ▲  ◄──post_forward()──            ◄──post_forward()──
//    └── reset_state() from everywhere
//
// Ownership: owns its hooks; the module's view owns the registry.
// Threads: not thread-safe; confined to the worker's step thread.
// Errors: FAILED_PRECONDITION for a change while running; hooks' errors come
//   through as they are, what a hook throws as a status that names the module
//   (torch_status.h), and leave the registry to be reset.
class HookRegistry {
 public:
  // `module_path` names the module in errors.
  explicit HookRegistry(std::string module_path);
  HookRegistry(const HookRegistry&) = delete;
  HookRegistry& operator=(const HookRegistry&) = delete;

  const std::string& module_path() const { return module_path_; }

  // Adds a hook after the others. ALREADY_EXISTS for a name that is taken; an
  // error of initialize_hook() comes through. After an error nothing changed.
  absl::Status add(std::unique_ptr<ModelHook> hook);
  // Removes the hook of this name, and no other. NOT_FOUND without it.
  absl::Status remove(absl::string_view name);

  bool contains(absl::string_view name) const;
  bool empty() const { return hooks_.empty(); }
  // In the order in which they were added.
  std::vector<std::string> names() const;

  // Enters the module. After an error of a hook the later ones did not run.
  absl::Status pre_forward();
  // Leaves the module, which returns `output`. Every hook runs; the first error
  // is returned. FAILED_PRECONDITION when the module was not entered: programs
  // can call the operators of hook points by themselves.
  absl::Status post_forward(ForwardOutput& output);
  // After an abandoned pass: nothing is entered, every hook is reset.
  void reset_state();

 private:
  const std::string module_path_;
  std::vector<std::unique_ptr<ModelHook>> hooks_;
  int depth_ = 0;
};

}  // namespace ferry
