#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "platform/distributed/store.h"

namespace ferry {

// A directory as a store, for processes of one host: a file for each key. It
// stays when they end; whoever made the directory removes it.
//
// Ownership: the directory is the caller's, exists, and holds nothing else.
// Threads: thread-safe; any number of objects may use one directory.
// Errors: as Store says, and those of the file system, with the path. A key
// that makes more than 245 bytes, with three for what is neither letter nor
// digit, is INVALID_ARGUMENT.
class FileStore final : public Store {
 public:
  explicit FileStore(std::string directory);

  absl::Status set(absl::string_view key, absl::string_view value) override;
  absl::StatusOr<std::string> get(absl::string_view key,
                                  absl::Duration timeout) override;
  absl::StatusOr<int64_t> add(absl::string_view key, int64_t amount) override;

 private:
  // Where a key's value, or number, is kept.
  absl::StatusOr<std::string> path_of(absl::string_view kind,
                                      absl::string_view key) const;

  const std::string directory_;
};

}  // namespace ferry
