#include "server/frontend/worker_path.h"

#include <unistd.h>

#include <filesystem>
#include <system_error>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace ferry {

absl::StatusOr<std::string> find_worker(const std::string& configured,
                                        const std::string& executable) {
  if (!configured.empty()) {
    if (access(configured.c_str(), X_OK) == 0) return configured;
    return absl::NotFoundError(absl::StrCat(
        "worker_path (--worker_path): no program at ", configured));
  }
  const std::filesystem::path directory =
      std::filesystem::path(executable).parent_path();
  const std::string in_tree =
      (directory.parent_path() / "worker" / "ferry_worker").string();
  const std::string beside = (directory / "ferry_worker").string();
  for (const std::string& path : {in_tree, beside}) {
    if (access(path.c_str(), X_OK) == 0) return path;
  }
  return absl::NotFoundError(
      absl::StrCat("worker_path (--worker_path): must be given, since there is "
                   "no program at ",
                   in_tree, " or ", beside));
}

absl::StatusOr<std::string> own_path() {
  std::error_code error;
  const std::filesystem::path path =
      std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) {
    return absl::InternalError(
        absl::StrCat("/proc/self/exe: ", error.message()));
  }
  return path.string();
}

}  // namespace ferry
