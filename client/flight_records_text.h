#pragma once

#include <string>

#include "ferry/v1/pipeline_service.pb.h"

namespace ferry {

// How ferryctl shows what ranks did together: a table with a line for each
// operation, oldest first, by rank and group, and then a line for each rank
// that could not be asked.
std::string flight_records_text(const v1::GetFlightRecordsResponse& response);

}  // namespace ferry
