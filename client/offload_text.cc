#include "client/offload_text.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/error_report.h"
#include "client/text_format.h"

namespace ferry {
namespace {

std::string copied_text(int64_t bytes, double gbps) {
  if (gbps <= 0) return short_bytes(bytes);
  return absl::StrFormat("%s at %.3g GB/s", short_bytes(bytes), gbps);
}

std::string waited_text(const google::protobuf::Duration& stall,
                        const google::protobuf::Duration& first_block_stall,
                        int64_t demand_fetches) {
  return absl::StrCat(
      fine_duration(to_duration(stall)), " for weights, of that ",
      fine_duration(to_duration(first_block_stall)), " for first blocks; ",
      demand_fetches, " blocks came late");
}

// What was to be streamed and is not.
std::string held_text(const v1::OffloadReport& report) {
  std::string text;
  int64_t others = report.held_count();
  int64_t bytes = report.held_bytes();
  for (const v1::HeldWeights& held : report.held_weights()) {
    absl::StrAppend(&text, "not streamed: ", printable(held.path()), ", ",
                    short_bytes(held.bytes()), ", ", printable(held.reason()),
                    "\n");
    --others;
    bytes -= held.bytes();
  }
  if (others > 0) {
    absl::StrAppend(&text, "and ", others, " more, ", bytes, " bytes\n");
  }
  return text;
}

std::string written_lines(const v1::OffloadReport& report) {
  std::string lines;
  for (const v1::WrittenState& entry : report.written_state()) {
    absl::StrAppend(&lines, "written: ", printable(entry.path()));
    if (entry.bytes() > 0) {
      absl::StrAppend(&lines, ", ", short_bytes(entry.bytes()));
    }
    absl::StrAppend(&lines, ", ", printable(entry.reason()), "\n");
  }
  const int64_t more = report.written_count() - report.written_state_size();
  if (more > 0) absl::StrAppend(&lines, "written: and ", more, " more\n");
  return lines;
}

}  // namespace

OffloadRows offload_rows(const v1::OffloadReport& report) {
  OffloadRows rows = {
      {"offload", absl::StrCat(printable(report.strategy()), ": ",
                               printable(report.reason()))},
      {"policy", printable(report.policy())},
      {"device", printable(report.device())}};
  if (report.device_bytes() > 0) {
    std::string text =
        absl::StrCat(short_bytes(report.device_bytes()), ", ",
                     short_bytes(report.resident_bytes()), " of them resident");
    if (report.slots() > 0)
      absl::StrAppend(&text, ", ", report.slots(), " slots");
    rows.push_back({"device memory", std::move(text)});
  }
  if (report.largest_request_bytes() > 0) {
    rows.push_back({"largest request",
                    absl::StrCat(short_bytes(report.largest_request_bytes()),
                                 " beside the weights, with headroom for ",
                                 short_bytes(report.headroom_bytes()))});
  }
  if (report.host_bytes() > 0) {
    rows.push_back(
        {"host memory", absl::StrCat(short_bytes(report.host_bytes()), ", ",
                                     printable(report.host_memory()))});
  }
  for (const std::string& note : report.notes()) {
    rows.push_back({"note", printable(note)});
  }
  if (report.written_count() > 0) {
    rows.push_back(
        {"written", absl::StrCat(report.written_count(),
                                 " tensors and attributes; each generation "
                                 "begins with the package's")});
  }
  if (report.streamed_bytes() == 0) return rows;
  rows.push_back({"streamed", absl::StrCat(short_bytes(report.streamed_bytes()),
                                           " that come and go")});
  rows.push_back(
      {"copied", copied_text(report.total_h2d_bytes(), report.h2d_gbps())});
  rows.push_back({"waited", waited_text(report.total_exposed_stall(),
                                        report.total_first_block_stall(),
                                        report.total_demand_fetches())});
  return rows;
}

std::string component_table(const v1::OffloadReport& report) {
  if (report.components().empty()) return "";
  OffloadRows rows = {
      {"COMPONENT", "ROLE", "PLACEMENT", "BLOCKS", "RESIDENT", "BYTES"}};
  std::string notes;
  for (const v1::ComponentReport& component : report.components()) {
    const bool has_blocks = component.blocks() > 0;
    rows.push_back(
        {printable(component.path()), printable(component.role()),
         printable(component.placement()),
         has_blocks ? absl::StrCat(component.blocks()) : "-",
         has_blocks ? absl::StrCat(component.resident_blocks()) : "-",
         short_bytes(component.bytes())});
    for (const std::string& note : component.notes()) {
      absl::StrAppend(&notes, "stays: ", printable(note), "\n");
    }
  }
  return absl::StrCat(table(rows), notes, held_text(report),
                      written_lines(report));
}

OffloadRows offload_rows(const v1::Timings& timings) {
  if (timings.h2d_bytes() == 0) return {};
  return {{"copied", copied_text(timings.h2d_bytes(), timings.h2d_gbps())},
          {"waited",
           waited_text(timings.exposed_stall(), timings.first_block_stall(),
                       timings.demand_fetches())}};
}

}  // namespace ferry
