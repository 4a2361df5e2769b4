#include "client/progress_display.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/error_report.h"
#include "client/text_format.h"

namespace ferry {
namespace {

constexpr int kBarWidth = 24;

std::string bar(const v1::Progress& progress) {
  const double done = static_cast<double>(progress.step()) /
                      static_cast<double>(progress.total_steps());
  const int filled =
      std::clamp(static_cast<int>(done * kBarWidth), 0, kBarWidth);
  return absl::StrCat("[", std::string(filled, '#'),
                      std::string(kBarWidth - filled, '.'), "]");
}

}  // namespace

ProgressDisplay::ProgressDisplay(std::ostream* err, bool terminal,
                                 const Clock& clock)
    : err_(err), terminal_(terminal), clock_(clock) {}

void ProgressDisplay::on_job(const v1::Job& job) {
  if (job.state() == state_) return;
  if (state_ == v1::Job::STATE_UNSPECIFIED) {
    end_line();
    *err_ << printable(job.name()) << " on " << printable(job.pipeline())
          << std::endl;
  }
  state_ = job.state();
  if (state_ == v1::Job::STATE_QUEUED || state_ == v1::Job::STATE_RUNNING) {
    show(state_name(state_));
  }
}

void ProgressDisplay::on_progress(const v1::Progress& progress) {
  if (progress.stage() == v1::Progress::STAGE_UNSPECIFIED) {
    show(absl::StrCat("queued, ", progress.queue_position(), " ahead"));
    return;
  }
  std::string line = stage_name(progress.stage());
  if (progress.stage() == v1::Progress::STAGE_DENOISE &&
      progress.total_steps() > 0) {
    if (terminal_) absl::StrAppend(&line, " ", bar(progress));
    absl::StrAppend(&line, " ", progress.step(), "/", progress.total_steps(),
                    rate_text(progress));
  }
  show(line);
}

void ProgressDisplay::end_line() {
  if (line_open_) *err_ << std::endl;
  line_open_ = false;
}

void ProgressDisplay::show(const std::string& line) {
  if (terminal_) {
    // Back to the first column, and away with what is there.
    *err_ << "\r\x1b[K" << line << std::flush;
    line_open_ = true;
  } else {
    *err_ << line << std::endl;
  }
}

std::string ProgressDisplay::rate_text(const v1::Progress& progress) {
  const absl::Duration now = clock_.monotonic();
  if (first_step_ < 0) {
    first_step_ = progress.step();
    first_time_ = now;
  }
  std::string text;
  const double steps = progress.step() - first_step_;
  const double seconds = absl::ToDoubleSeconds(now - first_time_);
  absl::Duration left = absl::InfiniteDuration();
  if (steps > 0 && seconds > 0) {
    const double rate = steps / seconds;
    absl::StrAppendFormat(&text, ", %.1f steps/s", rate);
    left = absl::Seconds((progress.total_steps() - progress.step()) / rate);
  }
  // The server knows of the stages to come, too.
  if (progress.has_eta()) left = to_duration(progress.eta());
  if (left != absl::InfiniteDuration()) {
    absl::StrAppend(&text, ", ", short_duration(left), " left");
  }
  return text;
}

}  // namespace ferry
