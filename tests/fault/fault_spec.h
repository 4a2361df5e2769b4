#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace ferry {

// What happens at a fault point, and when: a value.
//
//   crash@NAME[:N]       the process aborts
//   hang@NAME[:N]        the thread waits until the fault is disarmed
//   oom@NAME[:N]         std::bad_alloc is thrown
//   slow@NAME[:N[:MS]]   the thread waits for MS milliseconds; 500 by default
//
// at the N-th time that a process of the test comes to the point, counted from
// the moment at which the fault was armed; the first by default, each with *.
struct Fault {
  enum class Kind { kCrash, kHang, kOutOfMemory, kSlow };

  Kind kind = Kind::kCrash;
  std::string point;
  // Counted from 1; 0: each.
  int hit = 1;
  absl::Duration pause = absl::Milliseconds(500);
};

// An error says what is wrong with the text.
absl::StatusOr<Fault> parse_fault(absl::string_view text);

// The two sides of a fault meet in a directory, which the environment variable
// FERRY_FAULTS names to the worker.
constexpr char kFaultsVariable[] = "FERRY_FAULTS";
// Holds the armed fault's text; missing or empty when there is none.
constexpr char kFaultFile[] = "fault";
// Has a byte for every hit of the armed fault's point.
constexpr char kHitsFile[] = "hits";

}  // namespace ferry
