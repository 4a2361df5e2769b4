#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "platform/distributed/store.h"

namespace ferry {

// Those keys of another store that begin with a prefix and a slash.
//
// Ownership: refers to the store, which outlives it. Threads: thread-safe.
class PrefixStore final : public Store {
 public:
  PrefixStore(Store& store, std::string prefix)
      : store_(store), prefix_(std::move(prefix)) {}

  absl::Status set(absl::string_view key, absl::string_view value) override {
    return store_.set(full(key), value);
  }
  absl::StatusOr<std::string> get(absl::string_view key,
                                  absl::Duration timeout) override {
    return store_.get(full(key), timeout);
  }
  absl::StatusOr<int64_t> add(absl::string_view key, int64_t amount) override {
    return store_.add(full(key), amount);
  }

 private:
  std::string full(absl::string_view key) const {
    return absl::StrCat(prefix_, "/", key);
  }

  Store& store_;
  const std::string prefix_;
};

}  // namespace ferry
