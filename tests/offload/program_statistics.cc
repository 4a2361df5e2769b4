#include "tests/offload/program_statistics.h"

#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace ferry {
namespace {

bool is_view(const std::string& name) {
  static const auto* const kViews = new std::set<std::string>{
      "aten::alias",   "aten::as_strided", "aten::chunk",     "aten::diagonal",
      "aten::expand",  "aten::flatten",    "aten::movedim",   "aten::narrow",
      "aten::permute", "aten::select",     "aten::slice",     "aten::split",
      "aten::squeeze", "aten::t",          "aten::transpose", "aten::unbind",
      "aten::unfold",  "aten::unsqueeze",  "aten::view"};
  return kViews->count(name) > 0;
}

}  // namespace

void ProgramStatistics::add(const RandomProgram& program,
                            const ProgramReport& report) {
  ++programs;
  with_hooks += program.has_hooks() ? 1 : 0;
  bool has_view = false;
  bool has_write = false;
  for (const auto& [name, count] : report.operators) {
    operators[name] += count;
    has_view |= is_view(name);
    // Not aten::__getitem__ and its like.
    has_write |= absl::EndsWith(name, "_") && !absl::EndsWith(name, "__");
  }
  with_views += has_view ? 1 : 0;
  with_writes += has_write ? 1 : 0;
  for (size_t i = 0; i < report.results.size(); ++i) {
    const PolicyResult& result = report.results[i];
    ++runs;
    refused += result.outcome == PolicyResult::Outcome::kRefused ? 1 : 0;
    if (!program.is_plain() || !report.policies[i].streams_all) continue;
    plain_bytes += result.block_bytes;
    plain_streamed_bytes += result.streamed_bytes;
  }
}

int ProgramStatistics::operator_count() const {
  int count = 0;
  for (const auto& [name, of_name] : operators) count += of_name;
  return count;
}

std::string ProgramStatistics::to_string() const {
  return absl::StrCat(
      programs, " programs: ", operators.size(), " kinds of operators, ",
      operator_count(), " operators; hooks in ", with_hooks, ", views in ",
      with_views, ", writes in place in ", with_writes, "; ", refused, " of ",
      runs, " runs refused; ", plain_streamed_bytes, " of ", plain_bytes,
      " bytes of plain programs' blocks stream");
}

}  // namespace ferry
