#include "platform/distributed/in_process/in_process_store.h"

#include "absl/strings/str_cat.h"
#include "platform/distributed/deadline.h"

namespace ferry {

absl::Status InProcessStore::set(absl::string_view key,
                                 absl::string_view value) {
  MutexLock lock(&mutex_);
  values_[std::string(key)] = std::string(value);
  changed_.notify_all();
  return absl::OkStatus();
}

absl::StatusOr<std::string> InProcessStore::get(absl::string_view key,
                                                absl::Duration timeout) {
  const Deadline deadline(timeout);
  MutexLock lock(&mutex_);
  while (true) {
    const auto found = values_.find(key);
    if (found != values_.end()) return found->second;
    if (deadline.has_passed()) {
      return absl::DeadlineExceededError(
          absl::StrCat("store: key \"", key, "\" has no value after ",
                       absl::FormatDuration(timeout)));
    }
    deadline.wait(&changed_, &mutex_);
  }
}

absl::StatusOr<int64_t> InProcessStore::add(absl::string_view key,
                                            int64_t amount) {
  MutexLock lock(&mutex_);
  return numbers_[std::string(key)] += amount;
}

}  // namespace ferry
