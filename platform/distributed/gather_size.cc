#include "platform/distributed/gather_size.h"

#include <limits>

#include "absl/strings/str_cat.h"

namespace ferry {

absl::Status check_gather_size(int64_t bytes, int size) {
  const int64_t most = std::numeric_limits<int64_t>::max() / size;
  if (bytes >= 1 && bytes <= most) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("all_gather of ", bytes, " bytes of each of ", size,
                   " ranks: it takes 1 to ", most));
}

}  // namespace ferry
