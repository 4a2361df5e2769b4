#pragma once

#include <cstdint>
#include <string>

#include "offload/offload_config.h"
#include "offload/resolved_plan.h"

namespace ferry {

// Why an offload policy became what it is: one sentence without its end, with
// the numbers that decided, for the log and the report. What the report shows
// elsewhere (which components, how many blocks) it does not repeat.
//
// `asked` is the policy as it was derived, `chosen` what was made of it,
// `plan` what that makes of the pipeline. An automatic policy was chosen with
// `free_bytes` of device memory free, of which `usable_bytes` were for weights.
std::string explain_choice(const OffloadConfig& asked,
                           const OffloadConfig& chosen,
                           const ResolvedPlan& plan, int64_t free_bytes,
                           int64_t usable_bytes);

}  // namespace ferry
