#pragma once

#include <torch/csrc/jit/api/module.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "offload/hook_registry.h"

namespace ferry {

// A module whose methods shall call hooks.
struct HookTarget {
  // Dotted path, for errors.
  std::string path;
  torch::jit::Module module;
  HookRegistry* hooks = nullptr;
};

// INVALID_ARGUMENT names a method or function of an archive that calls the
// operators of HookPoints by itself: what it told hooks would not be true.
absl::Status check_no_hook_points(const torch::jit::Module& root);

// Operators in the graphs of modules that call the modules' HookRegistries.
//
// The interpreter inlines submodules, so nothing outside the graphs sees a
// block being called. Therefore every method of every target gets, right after
// load,
//   ferry::pre_forward(t x, Any self) -> t    at the top; x: the first input
//   ferry::pre_forward.alone(Any self) -> ()  at the top, without inputs
//   ferry::post_forward(t x, Any self) -> t   before the return
// They look the module object up and run its registry; without hooks they cost
// nanoseconds. Their alias analysis is conservative, so that no pass moves,
// merges or drops them. self comes last: LibTorch's interpreter loads the
// arguments of an operator in their order, a loop that computes one of them
// with it, and takes what it loaded for the last time out of its register: in
// the loop's second round a self that was loaded before the loop would be gone.
// Modules of one type share their graphs, which get the
// operators once. Hooks come and go without touching a graph again.
//
// Ownership: refers to the registries, which must outlive it; from its
//   destruction on the operators do nothing.
// Threads: modules may run on any thread; hooks of one module on one thread at
//   a time.
// Errors: a hook's error ends the call with throw_status().
class HookPoints {
 public:
  // FAILED_PRECONDITION names a method of a target that has run already, since
  // a plan without hook points is cached for it. UNIMPLEMENTED
  // names a target that forks, because its parts could run after its
  // post_forward. After an error the modules must not be run.
  static absl::StatusOr<std::unique_ptr<HookPoints>> insert(
      const std::vector<HookTarget>& targets);

  ~HookPoints();
  HookPoints(const HookPoints&) = delete;
  HookPoints& operator=(const HookPoints&) = delete;

 private:
  explicit HookPoints(const std::vector<HookTarget>& targets);

  // Keeps the module objects, by whose addresses the operators look up.
  std::vector<torch::jit::ModulePtr> modules_;
};

}  // namespace ferry
