#pragma once

#include <string>
#include <vector>

#include "ferry/v1/job_event.pb.h"

namespace ferry {

// What a generation of `outputs` sends: each output in two pieces.
std::vector<v1::JobEvent> fake_events(const std::vector<std::string>& outputs);

}  // namespace ferry
