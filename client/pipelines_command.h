#pragma once

#include <string>

#include "client/command_context.h"

namespace ferry {

// `ferryctl pipelines list`, `pipelines get NAME`. A name may come without its
// `pipelines/`.
int run_pipelines_list(const CommandContext& context);
int run_pipelines_get(const CommandContext& context, const std::string& name);

}  // namespace ferry
