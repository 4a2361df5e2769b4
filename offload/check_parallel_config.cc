#include "offload/check_parallel_config.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"

namespace ferry {

absl::Status check_parallel_config(const DiffusionParallelConfig& config) {
  std::vector<std::string> problems;
  const auto check = [&](absl::string_view name, int64_t size,
                         absl::string_view instead) {
    if (size == 1) return;
    problems.push_back(absl::StrCat("parallel_config.", name, ": ", size,
                                    " is not supported; ", instead));
  };
  check("tensor_parallel_size", config.tensor_parallel_size,
        "1 with offload mode \"layer\" runs models that are larger than the "
        "device");
  check("sequence_parallel_size", config.sequence_parallel_size,
        "1 is: ranks serve requests of their own (data_parallel_size)");
  check("cfg_parallel_size", config.cfg_parallel_size,
        "1 runs guidance as one batched pass");
  if (config.use_hsdp) {
    problems.push_back(
        "parallel_config.use_hsdp: HSDP is not supported; offload mode "
        "\"layer\" runs models that are larger than the device");
  }
  if (problems.empty()) return absl::OkStatus();
  return absl::UnimplementedError(absl::StrJoin(problems, "; "));
}

}  // namespace ferry
