#include "offload/hook_registry.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "offload/torch_status.h"
#include "platform/base/logging.h"
#include "platform/base/status_macros.h"

namespace ferry {
namespace {

absl::Status running_error(const std::string& module_path) {
  return absl::FailedPreconditionError(
      absl::StrCat(module_path, ": hooks cannot change while the module runs"));
}

}  // namespace

HookRegistry::HookRegistry(std::string module_path)
    : module_path_(std::move(module_path)) {}

absl::Status HookRegistry::add(std::unique_ptr<ModelHook> hook) {
  if (depth_ > 0) return running_error(module_path_);
  if (contains(hook->name())) {
    return absl::AlreadyExistsError(absl::StrCat(
        module_path_, ": has a hook called \"", hook->name(), "\" already"));
  }
  RETURN_IF_ERROR(
      call_torch(module_path_, [&] { return hook->initialize_hook(); }));
  hooks_.push_back(std::move(hook));
  return absl::OkStatus();
}

absl::Status HookRegistry::remove(absl::string_view name) {
  if (depth_ > 0) return running_error(module_path_);
  const auto found =
      std::find_if(hooks_.begin(), hooks_.end(),
                   [&](const auto& hook) { return hook->name() == name; });
  if (found == hooks_.end()) {
    return absl::NotFoundError(
        absl::StrCat(module_path_, ": has no hook called \"", name, "\""));
  }
  hooks_.erase(found);
  return absl::OkStatus();
}

bool HookRegistry::contains(absl::string_view name) const {
  return std::any_of(hooks_.begin(), hooks_.end(),
                     [&](const auto& hook) { return hook->name() == name; });
}

std::vector<std::string> HookRegistry::names() const {
  std::vector<std::string> names;
  for (const auto& hook : hooks_) names.push_back(hook->name());
  return names;
}

absl::Status HookRegistry::pre_forward() {
  if (depth_++ > 0) return absl::OkStatus();
  for (const auto& hook : hooks_) {
    RETURN_IF_ERROR(
        call_torch(module_path_, [&] { return hook->pre_forward(); }));
  }
  return absl::OkStatus();
}

absl::Status HookRegistry::post_forward(ForwardOutput& output) {
  if (depth_ == 0) {
    return absl::FailedPreconditionError(
        absl::StrCat(module_path_, ": is left, and was not entered"));
  }
  if (--depth_ > 0) return absl::OkStatus();
  absl::Status first;
  for (auto hook = hooks_.rbegin(); hook != hooks_.rend(); ++hook) {
    first.Update(call_torch(module_path_,
                            [&] { return (*hook)->post_forward(output); }));
  }
  return first;
}

void HookRegistry::reset_state() {
  depth_ = 0;
  for (const auto& hook : hooks_) {
    const absl::Status status =
        call_torch(module_path_, [&] { hook->reset_state(); });
    if (status.ok()) continue;
    log_warning("a hook was not reset",
                {{"hook", hook->name()}, {"error", status.ToString()}});
  }
}

}  // namespace ferry
