#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "platform/base/mutex.h"
#include "platform/distributed/store.h"

namespace ferry {

// The store of ranks that are threads of one process: all use this one object.
// Threads: thread-safe.
class InProcessStore final : public Store {
 public:
  absl::Status set(absl::string_view key, absl::string_view value) override
      EXCLUDES_LOCK(mutex_);
  absl::StatusOr<std::string> get(absl::string_view key,
                                  absl::Duration timeout) override
      EXCLUDES_LOCK(mutex_);
  absl::StatusOr<int64_t> add(absl::string_view key, int64_t amount) override
      EXCLUDES_LOCK(mutex_);

 private:
  Mutex mutex_;
  CondVar changed_;
  std::map<std::string, std::string, std::less<>> values_ GUARDED_BY(mutex_);
  std::map<std::string, int64_t, std::less<>> numbers_ GUARDED_BY(mutex_);
};

}  // namespace ferry
