#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "tests/support/daemon_fixture.h"
#include "tests/support/generate_call.h"

namespace ferry {

// How a rank is lost: SIGKILL, or SIGSTOP.
enum class Loss { kDead, kSilent };

// Tests of a pipeline of several ranks, "group", that loses one of them.
class GroupFixture : public DaemonFixture {
 protected:
  static constexpr char kPipeline[] = "pipelines/group";

  using Calls = std::vector<std::unique_ptr<GenerateCall>>;

  // A silence is noticed after this.
  static absl::Duration heartbeat_timeout() { return absl::Seconds(3); }
  // Flags of a daemon with so many ranks; only heartbeats find what hangs.
  static std::vector<std::string> group_flags(int ranks);

  // The worker of this rank and generation; 0 when there is none now.
  static pid_t find_rank(const Daemon& daemon, int rank, int64_t generation);
  // The test fails if there is no process, 0.
  static void lose(pid_t pid, Loss loss);
  // What errors and the log say of it.
  static std::string why_lost(int rank, Loss loss);

  static v1::GenerateRequest request_of_steps(int steps);
  static Calls start_calls(Daemon& daemon, int count, int steps);

  // A later group than `generation` is whole, is alone, and serves on all of
  // its ranks.
  static void expect_next_group_serves(Daemon& daemon, int64_t generation,
                                       int ranks);
};

}  // namespace ferry
