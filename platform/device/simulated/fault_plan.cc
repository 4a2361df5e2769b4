#include "platform/device/simulated/fault_plan.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace ferry {
namespace {

absl::string_view name_of(FaultPoint point) {
  switch (point) {
    case FaultPoint::kAllocate:
      return "allocation of device memory";
    case FaultPoint::kAllocateHost:
      return "allocation of host memory";
    case FaultPoint::kAcquireStream:
      return "acquisition of a stream";
    case FaultPoint::kCreateEvent:
      return "creation of an event";
    case FaultPoint::kRecord:
      return "record of an event";
    case FaultPoint::kWait:
      return "wait for an event";
    case FaultPoint::kCopy:
      return "call of a copy";
    case FaultPoint::kSynchronize:
      return "synchronization";
    case FaultPoint::kCopyRun:
      return "run of a copy";
    case FaultPoint::kCopySilent:
      return "run of a copy, in silence,";
  }
  return "";
}

bool is_about_memory(FaultPoint point) {
  return point == FaultPoint::kAllocate || point == FaultPoint::kAllocateHost ||
         point == FaultPoint::kAcquireStream;
}

}  // namespace

void FaultPlan::fail(FaultPoint point, int64_t nth) {
  MutexLock lock(&mutex_);
  Counter& counter = counters_[static_cast<size_t>(point)];
  counter.fails_at = counter.calls + nth;
}

void FaultPlan::slow_copy(int64_t nth, absl::Duration delay) {
  MutexLock lock(&mutex_);
  slow_copy_at_ =
      counters_[static_cast<size_t>(FaultPoint::kCopyRun)].calls + nth;
  slow_copy_delay_ = delay;
}

int64_t FaultPlan::calls(FaultPoint point) const {
  MutexLock lock(&mutex_);
  return counters_[static_cast<size_t>(point)].calls;
}

absl::Status FaultPlan::hit(FaultPoint point) {
  MutexLock lock(&mutex_);
  Counter& counter = counters_[static_cast<size_t>(point)];
  ++counter.calls;
  if (counter.calls != counter.fails_at) return absl::OkStatus();
  return absl::Status(is_about_memory(point)
                          ? absl::StatusCode::kResourceExhausted
                          : absl::StatusCode::kInternal,
                      absl::StrCat("fault switch: ", name_of(point), " number ",
                                   counter.calls, " fails"));
}

absl::Duration FaultPlan::copy_delay() {
  MutexLock lock(&mutex_);
  const int64_t runs =
      counters_[static_cast<size_t>(FaultPoint::kCopyRun)].calls;
  return runs == slow_copy_at_ ? slow_copy_delay_ : absl::ZeroDuration();
}

}  // namespace ferry
