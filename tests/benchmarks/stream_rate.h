#pragma once

namespace ferry {

// What ferryd does with an output's bytes beside gRPC's own work
// (stream_mib_per_s_ratio): how fast a large output of a finished generation
// comes through Generate, divided by how fast a bare gRPC stream of messages of
// the same size comes. Until the last byte: ferryd frees the output after that.
void measure_stream_rate();

}  // namespace ferry
