#include "offload/distributed/start_vote.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "platform/base/fault_point.h"
#include "platform/base/status_macros.h"

namespace ferry {
namespace {

// Of a message; what a group can exchange is limited, and a rank that gave too
// much would leave the others waiting.
constexpr size_t kMaxMessageBytes = size_t{1} << 16;

// CODE, a space, and the digest of a rank that is well, else its message.
std::string write_vote(const absl::Status& mine, absl::string_view digest) {
  return absl::StrCat(
      static_cast<int>(mine.code()), " ",
      mine.ok() ? digest : mine.message().substr(0, kMaxMessageBytes));
}

// "ranks 0, 2: no memory".
std::string attribute(const std::vector<size_t>& ranks,
                      const std::string& message) {
  return absl::StrCat(ranks.size() == 1 ? "rank " : "ranks ",
                      absl::StrJoin(ranks, ", "), ": ", message);
}

struct Vote {
  absl::StatusCode code = absl::StatusCode::kUnknown;
  std::string text;
};

Vote read_vote(const std::string& vote) {
  const std::pair<std::string, std::string> parts =
      absl::StrSplit(vote, absl::MaxSplits(' ', 1));
  int code = 0;
  if (!absl::SimpleAtoi(parts.first, &code)) return {};
  return {static_cast<absl::StatusCode>(code), parts.second};
}

}  // namespace

absl::Status vote_on_start(RankGroup& group, const absl::Status& mine,
                           absl::string_view digest) {
  return vote_on_start(*group.control, group.start_timeout, mine, digest);
}

absl::Status vote_on_start(HostCommunicator& ranks, absl::Duration timeout,
                           const absl::Status& mine, absl::string_view digest) {
  fault_point("start_vote");
  ASSIGN_OR_RETURN(
      const std::vector<std::string> votes,
      all_gather_strings(ranks, write_vote(mine, digest), timeout));
  // Of the ranks that are well, by digest.
  std::map<std::string, std::vector<size_t>> well;
  // In the order of their first ranks.
  std::vector<std::pair<std::string, std::vector<size_t>>> failures;
  absl::StatusCode code = absl::StatusCode::kOk;
  for (size_t rank = 0; rank < votes.size(); ++rank) {
    const Vote vote = read_vote(votes[rank]);
    if (vote.code == absl::StatusCode::kOk) {
      well[vote.text].push_back(rank);
      continue;
    }
    if (code == absl::StatusCode::kOk) code = vote.code;
    auto failure = std::find_if(
        failures.begin(), failures.end(),
        [&vote](const auto& other) { return other.first == vote.text; });
    if (failure == failures.end()) {
      failure = failures.insert(failure, {vote.text, {}});
    }
    failure->second.push_back(rank);
  }
  if (!failures.empty()) {
    std::vector<std::string> texts;
    for (const auto& [text, who] : failures) {
      texts.push_back(attribute(who, text));
    }
    return absl::Status(code, absl::StrJoin(texts, "; "));
  }
  if (well.size() == 1) return absl::OkStatus();
  std::vector<std::string> opinions;
  for (const auto& [text, who] : well) {
    opinions.push_back(
        absl::StrCat("ranks ", absl::StrJoin(who, ", "), ": ", text));
  }
  return absl::FailedPreconditionError(absl::StrCat(
      "ranks disagree about the weights or what is done with them; the same ",
      "package, configuration and version is needed on all: ",
      absl::StrJoin(opinions, "; ")));
}

}  // namespace ferry
