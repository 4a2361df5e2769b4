#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "platform/base/mutex.h"

namespace ferry {

// Which health services exist and whether they serve. HealthReporter is the
// only writer; the Health services of all servers read it.
//
// Threads: thread-safe.
class HealthBoard {
 public:
  // What Health/Check answers: nothing for a service that is not known.
  using Status = std::optional<bool>;
  // Whether they serve, by service.
  using Statuses = std::map<std::string, bool, std::less<>>;

  // Sets these and leaves the others. They change at once: who sees one of them
  // sees all.
  void set(const Statuses& statuses) EXCLUDES_LOCK(mutex_);

  Status find(absl::string_view service) const EXCLUDES_LOCK(mutex_);

  // Blocks while the service's status is `seen`, for at most `timeout`, and
  // returns the status. May return early with `seen`. Returns at once when the
  // board is closed.
  Status wait_for_change(absl::string_view service, Status seen,
                         absl::Duration timeout) const EXCLUDES_LOCK(mutex_);

  // Ends all watching, for good; statuses may still change.
  void close() EXCLUDES_LOCK(mutex_);
  bool is_closed() const EXCLUDES_LOCK(mutex_);

 private:
  Status find_locked(absl::string_view service) const REQUIRES_LOCK(mutex_);

  mutable Mutex mutex_;
  mutable CondVar changed_;
  Statuses services_ GUARDED_BY(mutex_);
  bool closed_ GUARDED_BY(mutex_) = false;
};

}  // namespace ferry
