#include "client/flight_records_text.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "client/error_report.h"
#include "client/text_format.h"

namespace ferry {
namespace {

// `1.204ms`, as in the log.
std::string time_text(const google::protobuf::Duration& duration) {
  return absl::FormatDuration(
      absl::Trunc(to_duration(duration), absl::Microseconds(1)));
}

std::vector<std::string> row_of(const v1::FlightRecord& record) {
  return {absl::StrCat("#", record.number()),
          printable(record.kind()),
          absl::StrCat(record.bytes()),
          state_name(record.state()),
          time_text(record.age()),
          record.has_waited() ? time_text(record.waited()) : "-",
          record.has_took() ? time_text(record.took()) : "-"};
}

}  // namespace

std::string flight_records_text(const v1::GetFlightRecordsResponse& response) {
  std::vector<std::vector<std::string>> rows = {{"RANK", "GROUP", "NUMBER",
                                                 "OPERATION", "BYTES", "STATE",
                                                 "AGE", "WAITED", "TOOK"}};
  std::string errors;
  for (const v1::RankFlightRecords& rank : response.ranks()) {
    for (const v1::GroupFlightRecords& group : rank.groups()) {
      for (const v1::FlightRecord& record : group.records()) {
        std::vector<std::string> row = row_of(record);
        row.insert(row.begin(),
                   {absl::StrCat(rank.index()), printable(group.group())});
        rows.push_back(std::move(row));
      }
    }
    if (rank.has_error()) {
      absl::StrAppend(&errors, "rank ", rank.index(), ": ",
                      describe_error(rank.error()), "\n");
    }
  }
  return table(rows) + errors;
}

}  // namespace ferry
