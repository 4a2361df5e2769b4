#pragma once

#include <torch/csrc/jit/runtime/operator.h>

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "pipelines/torchscript/operators/testing/operator_trials.h"

namespace ferry {

// Tries each operator, in a child process that is replaced where a call ends
// it: calls may crash, wait for ever, or take all memory. A call has two
// seconds of processor time, a minute in all, and two gigabytes. The calling
// process must not have run operators yet, since LibTorch's threads are not in
// children.
absl::StatusOr<std::vector<TrialRecord>> run_forked_trials(
    const std::vector<std::shared_ptr<torch::jit::Operator>>& operators,
    const TrialOptions& options);

}  // namespace ferry
