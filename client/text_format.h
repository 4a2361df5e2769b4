#pragma once

#include <google/protobuf/duration.pb.h>
#include <google/protobuf/timestamp.pb.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "ferry/v1/flight_records.pb.h"
#include "ferry/v1/job.pb.h"
#include "ferry/v1/pipeline.pb.h"

namespace ferry {

// How ferryctl shows values to people.

// `succeeded` of STATE_SUCCEEDED.
std::string state_name(v1::Job::State state);
std::string state_name(v1::Pipeline::State state);
std::string state_name(v1::FlightRecord::State state);
// `denoise` of STAGE_DENOISE.
std::string stage_name(v1::Progress::Stage stage);

absl::Duration to_duration(const google::protobuf::Duration& duration);

// `3.2s`, `1m05s`, `2h03m`.
std::string short_duration(absl::Duration duration);
// `12.3ms`, to a tenth of a millisecond: of what people do not wait for.
std::string fine_duration(absl::Duration duration);
// RFC 3339 in UTC with seconds; `-` when it is unset.
std::string short_time(const google::protobuf::Timestamp& time);
// `512 B`, `1.5 MiB`.
std::string short_bytes(int64_t bytes);

// Left-aligned columns, two spaces apart; one line a row, each ended.
std::string table(const std::vector<std::vector<std::string>>& rows);

}  // namespace ferry
