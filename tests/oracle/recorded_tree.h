#pragma once

#include <nlohmann/json.hpp>

#include "absl/status/statusor.h"
#include "offload/module_tree.h"

namespace ferry {

// The module tree of a recorded pipeline, with its declarations and plan.
// INVALID_ARGUMENT when the record is not of the form that README.md tells.
absl::StatusOr<ModuleTree> read_recorded_tree(
    const nlohmann::ordered_json& record);

}  // namespace ferry
