#pragma once

#include <string>

namespace ferry {

// What ferryd does in a unary call beside gRPC's own work (unary_rps_ratio):
// GetJob calls in a second that ferryd answers, divided by those that a bare
// gRPC server answers to the same client. The job is a finished one, with its
// spec and outputs; the bare server's is empty.
void measure_unary_rate(const std::string& package);

}  // namespace ferry
