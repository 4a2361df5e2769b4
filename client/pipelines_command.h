#pragma once

#include <string>

#include "client/command_context.h"

namespace ferry {

// `ferryctl pipelines list`, `pipelines get NAME`, `pipelines flight-records
// NAME`. A name may come without its `pipelines/`.
int run_pipelines_list(const CommandContext& context);
int run_pipelines_get(const CommandContext& context, const std::string& name);
int run_pipelines_flight_records(const CommandContext& context,
                                 const std::string& name);

}  // namespace ferry
