#include "pipelines/json/git_lfs.h"

#include "absl/strings/match.h"

namespace ferry {

bool is_git_lfs_pointer(absl::string_view start) {
  // The second one is what git-lfs wrote before its first release.
  return absl::StartsWith(start, "version https://git-lfs.github.com/spec/") ||
         absl::StartsWith(start, "version https://hawser.github.com/spec/");
}

}  // namespace ferry
