#include "server/frontend/end_requests.h"

#include <string.h>

#include "absl/strings/str_cat.h"

namespace ferry {

void EndRequests::on_signal(int signal) {
  MutexLock lock(&mutex_);
  if (requested_) {
    urgent_ = true;
  } else {
    requested_ = true;
    why_ = absl::StrCat("signal ", signal, " (", strsignal(signal), ")");
  }
  changed_.notify_all();
}

void EndRequests::on_failure(ExitCode code, const std::string& why) {
  MutexLock lock(&mutex_);
  if (requested_) return;
  requested_ = true;
  code_ = code;
  why_ = why;
  changed_.notify_all();
}

void EndRequests::wait() {
  MutexLock lock(&mutex_);
  while (!requested_) changed_.wait(&mutex_);
}

bool EndRequests::wait_until_urgent(absl::Duration timeout) {
  MutexLock lock(&mutex_);
  const absl::Duration end = clock_.monotonic() + timeout;
  while (!urgent_) {
    const absl::Duration left = end - clock_.monotonic();
    if (left <= absl::ZeroDuration()) break;
    changed_.wait_for(&mutex_, absl::ToChronoNanoseconds(left));
  }
  return urgent_;
}

bool EndRequests::is_urgent() const {
  MutexLock lock(&mutex_);
  return urgent_;
}

ExitCode EndRequests::code() const {
  MutexLock lock(&mutex_);
  return code_;
}

std::string EndRequests::why() const {
  MutexLock lock(&mutex_);
  return why_;
}

}  // namespace ferry
