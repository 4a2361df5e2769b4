#pragma once

#include <string>

#include "client/command_context.h"

namespace ferry {

// `ferryctl jobs list`, `jobs get NAME`, `jobs cancel NAME`. A name may come
// without its `jobs/`.
int run_jobs_list(const CommandContext& context);
int run_jobs_get(const CommandContext& context, const std::string& name);
int run_jobs_cancel(const CommandContext& context, const std::string& name);

}  // namespace ferry
