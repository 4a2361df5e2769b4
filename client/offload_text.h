#pragma once

#include <string>
#include <utility>
#include <vector>

#include "ferry/v1/job.pb.h"
#include "ferry/v1/offload_report.pb.h"

namespace ferry {

// How ferryctl shows what offloading does. Each row is a name and a text.
using OffloadRows = std::vector<std::vector<std::string>>;

// Strategy and reason, memory, and what was done since the pipeline was loaded.
OffloadRows offload_rows(const v1::OffloadReport& report);
// A table of the components, with a line for each of their notes, for what was
// to be streamed and is not, and for what methods write; ends with a newline
// unless it is empty.
std::string component_table(const v1::OffloadReport& report);

// What offloading did for one generation; empty without offloading.
OffloadRows offload_rows(const v1::Timings& timings);

}  // namespace ferry
