#pragma once

#include <ostream>
#include <string>

#include "absl/time/time.h"
#include "ferry/v1/job.pb.h"
#include "platform/base/clock.h"

namespace ferry {

// Shows how a generation goes on: on a terminal one line that is drawn over,
// with a bar, the rate and the time left; elsewhere one line an event.
//
// Threads: not thread-safe.
class ProgressDisplay {
 public:
  // `err` and `clock` must outlive the display.
  ProgressDisplay(std::ostream* err, bool terminal, const Clock& clock);

  void on_job(const v1::Job& job);
  void on_progress(const v1::Progress& progress);
  // Leaves the line that is drawn over; before anything else is printed.
  void end_line();

 private:
  void show(const std::string& line);
  // `4.2 steps/s, 3s left`, as far as it is known.
  std::string rate_text(const v1::Progress& progress);

  std::ostream* const err_;
  const bool terminal_;
  const Clock& clock_;
  bool line_open_ = false;
  v1::Job::State state_ = v1::Job::STATE_UNSPECIFIED;
  // The first step that was seen and when (monotonic); -1 before.
  int first_step_ = -1;
  absl::Duration first_time_;
};

}  // namespace ferry
