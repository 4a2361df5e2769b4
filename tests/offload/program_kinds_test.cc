// Programs that stand for one kind of fault each (program_kinds.h) give the
// same bytes by every policy with one to three ranks.

#include "tests/offload/program_kinds.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <string>

#include "pipelines/torchscript/torch_settings.h"
#include "tests/offload/run_program.h"

namespace ferry {
namespace {

TEST(ProgramKindsTest, OffloadedIsResidentByEveryPolicy) {
  set_deterministic_mode();
  const TorchScope scope(1);
  int runs = 0;
  for (const NamedProgram& named : program_kinds()) {
    SCOPED_TRACE(named.name);
    const auto expected = run_resident(named.program);
    ASSERT_TRUE(expected.ok()) << expected.status() << "\n"
                               << named.program.source();
    // Steps give different bytes, and so do generations of what has a state.
    EXPECT_NE((*expected)[0], (*expected)[1]);
    for (const RankPolicy& policy : all_policies(named.program)) {
      SCOPED_TRACE(policy.name);
      const PolicyResult result =
          run_offloaded(named.program, policy, *expected);
      EXPECT_EQ(result.outcome, PolicyResult::Outcome::kSame) << result.message;
      // The other component's blocks have nothing of the kind.
      if (policy.streams_all) {
        EXPECT_GT(2 * result.streamed_bytes, result.block_bytes / 2);
      }
      ++runs;
    }
  }
  std::printf("kinds of programs: %d runs\n", runs);
  EXPECT_GE(runs, 300);
}

}  // namespace
}  // namespace ferry
