#pragma once

#include <torch/csrc/jit/runtime/operator.h>

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "pipelines/torchscript/operators/testing/operator_trials.h"

namespace ferry {

// Tries each operator, in child processes that are replaced where a call ends
// them: calls may crash, wait for ever, or take all memory. A call has two
// seconds of processor time, a minute in all, and two gigabytes. So many
// children work at a time. The calling process must not have run operators yet,
// since LibTorch's threads are not in children.
absl::StatusOr<std::vector<TrialRecord>> run_forked_trials(
    const std::vector<std::shared_ptr<torch::jit::Operator>>& operators,
    const TrialOptions& options, size_t children);

// What the test of the table makes do with. The table is made with it too, and
// with many more calls.
constexpr TrialOptions kFewTrials = {/*enough=*/12, /*patience=*/40,
                                     /*limit=*/60, /*seed=*/1};

}  // namespace ferry
