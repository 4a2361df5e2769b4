#include "tests/fault/fault_spec.h"

#include <vector>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "platform/base/status_macros.h"

namespace ferry {
namespace {

absl::Status wrong(absl::string_view text, absl::string_view what) {
  return absl::InvalidArgumentError(
      absl::StrCat("the fault '", text, "': ", what));
}

absl::StatusOr<Fault::Kind> parse_kind(absl::string_view text,
                                       absl::string_view kind) {
  if (kind == "crash") return Fault::Kind::kCrash;
  if (kind == "hang") return Fault::Kind::kHang;
  if (kind == "oom") return Fault::Kind::kOutOfMemory;
  if (kind == "slow") return Fault::Kind::kSlow;
  return wrong(text, "must start with crash@, hang@, oom@ or slow@");
}

}  // namespace

absl::StatusOr<Fault> parse_fault(absl::string_view text) {
  Fault fault;
  const std::vector<absl::string_view> halves =
      absl::StrSplit(text, absl::MaxSplits('@', 1));
  ASSIGN_OR_RETURN(fault.kind, parse_kind(text, halves[0]));
  if (halves.size() < 2) return wrong(text, "names no point");
  const std::vector<absl::string_view> parts = absl::StrSplit(halves[1], ':');
  fault.point = std::string(parts[0]);
  if (fault.point.empty()) return wrong(text, "names no point");
  if (parts.size() > 1) {
    if (parts[1] == "*") {
      fault.hit = 0;
    } else if (!absl::SimpleAtoi(parts[1], &fault.hit) || fault.hit < 1) {
      return wrong(text, "the hit must be a number from 1, or *");
    }
  }
  if (parts.size() > 2) {
    int milliseconds = 0;
    if (fault.kind != Fault::Kind::kSlow ||
        !absl::SimpleAtoi(parts[2], &milliseconds) || milliseconds < 1) {
      return wrong(text, "slow@ alone may have a third part, milliseconds");
    }
    fault.pause = absl::Milliseconds(milliseconds);
  }
  if (parts.size() > 3) return wrong(text, "has too many parts");
  return fault;
}

}  // namespace ferry
