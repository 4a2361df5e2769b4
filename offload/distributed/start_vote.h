#pragma once

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "offload/distributed/rank_group.h"
#include "platform/distributed/host_communicator.h"

namespace ferry {

// One step of a start that all ranks make: each says how it went for it, and
// that it means the same as the others. Every rank calls it, also one that has
// failed, so that no collective is left unmatched.
//
// OK: all are well, and all digests are equal. Else an error on every rank that
// names the ranks: the first failure's code and all messages, each once, of 64
// KiB at most; or FAILED_PRECONDITION where ranks disagree.
absl::Status vote_on_start(HostCommunicator& ranks, absl::Duration timeout,
                           const absl::Status& mine, absl::string_view digest);
// Over the control group, while no passes are made.
absl::Status vote_on_start(RankGroup& group, const absl::Status& mine,
                           absl::string_view digest);

}  // namespace ferry
