#pragma once

#include "absl/status/statusor.h"
#include "offload/module_tree.h"
#include "offload/offload_config.h"
#include "offload/resolved_plan.h"

namespace ferry {

// Applies a policy to a pipeline: which components it covers, which rings of
// blocks are streamed, what stays, what the pipeline stages itself, and who
// owns each storage. Looks at its arguments only and changes nothing, so that
// every refusal comes before the first weight is moved.
//
// Of the blocks that stay, resident_layers of them, the plan takes evenly
// spaced ones. A block owns a storage that nothing outside it uses; one that
// two blocks share, or a block and anything else, or two components, stays on
// the device, as does what a tensor's resident_reason keeps there.
//
// INVALID_ARGUMENT with everything that is wrong: a component that was named
// but does not exist or cannot be streamed, resident_layers that no DiT can
// have, an on-demand component without lifecycle, a gathered encoder that is
// not declared replicated, a block in two rings. Where no component was named,
// what cannot be streamed is a warning and stays on the device.
// REQUIRES: !config.is_automatic().
absl::StatusOr<ResolvedPlan> resolve_offload_plan(const ModuleTree& tree,
                                                  const OffloadConfig& config);

}  // namespace ferry
