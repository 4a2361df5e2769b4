#include "platform/distributed/host_communicator.h"

#include <algorithm>
#include <cstddef>

#include "absl/strings/str_cat.h"
#include "platform/base/status_macros.h"
#include "platform/distributed/deadline.h"

namespace ferry {
namespace {

// More is no text, whatever a peer says.
constexpr int64_t kMaxTextBytes = int64_t{16} << 20;

}  // namespace

absl::StatusOr<std::vector<std::string>> all_gather_strings(
    HostCommunicator& communicator, absl::string_view mine,
    absl::Duration timeout) {
  const auto my_bytes = static_cast<int64_t>(mine.size());
  if (my_bytes > kMaxTextBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("the text has ", my_bytes, " bytes; at most ",
                     kMaxTextBytes, " can be gathered"));
  }
  const Deadline deadline(timeout);
  const auto size = static_cast<size_t>(communicator.size());
  std::vector<int64_t> lengths(size);
  RETURN_IF_ERROR(communicator.all_gather(&my_bytes, lengths.data(),
                                          sizeof my_bytes, deadline.left()));
  const auto bounds = std::minmax_element(lengths.begin(), lengths.end());
  if (*bounds.first < 0 || *bounds.second > kMaxTextBytes) {
    const auto wrong = *bounds.first < 0 ? bounds.first : bounds.second;
    return absl::FailedPreconditionError(
        absl::StrCat("rank ", wrong - lengths.begin(), " gathers a text of ",
                     *wrong, " bytes; it must be 0 to ", kMaxTextBytes));
  }
  std::vector<std::string> texts(size);
  const int64_t longest = *bounds.second;
  if (longest == 0) return texts;
  std::string padded(mine);
  padded.resize(static_cast<size_t>(longest));
  std::string all(size * padded.size(), '\0');
  RETURN_IF_ERROR(communicator.all_gather(padded.data(), all.data(), longest,
                                          deadline.left()));
  for (size_t rank = 0; rank < size; ++rank) {
    texts[rank] =
        all.substr(rank * padded.size(), static_cast<size_t>(lengths[rank]));
  }
  return texts;
}

absl::Status barrier(HostCommunicator& communicator, absl::Duration timeout) {
  return communicator.all_reduce_or(0, timeout).status();
}

}  // namespace ferry
