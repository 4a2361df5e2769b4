// Random programs give the same bytes by every offload policy: 2,000 of them,
// drawn from fixed seeds. `make fuzz-programs` runs others for as long as
// asked.

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <string>

#include "absl/strings/match.h"
#include "pipelines/torchscript/torch_settings.h"
#include "tests/offload/check_program.h"
#include "tests/offload/draw_program.h"
#include "tests/offload/program_package.h"
#include "tests/offload/program_policies.h"
#include "tests/offload/program_statistics.h"
#include "tests/offload/random_program.h"
#include "tests/offload/run_program.h"

namespace ferry {
namespace {

constexpr int kChunks = 16;
constexpr int kProgramsOfChunk = 125;

class RandomProgramsTest : public testing::TestWithParam<int> {
 protected:
  RandomProgramsTest() : scope_(1) { set_deterministic_mode(); }

  TorchScope scope_;
};

TEST_P(RandomProgramsTest, OffloadedIsResident) {
  ProgramStatistics drawn;
  for (int i = 0; i < kProgramsOfChunk; ++i) {
    const auto seed =
        static_cast<uint64_t>(GetParam() * kProgramsOfChunk + i + 1);
    const RandomProgram program = draw_program(seed);
    const ProgramReport report = check_program(program, true);
    ASSERT_EQ(report.message, "");
    drawn.add(program, report);
  }
  std::printf("%s\n", drawn.to_string().c_str());
  EXPECT_GE(drawn.operators.size(), 60U);
  EXPECT_GE(drawn.operator_count(), 12 * drawn.programs);
  EXPECT_GE(3 * drawn.with_hooks, drawn.programs);
  EXPECT_GE(3 * drawn.with_views, drawn.programs);
  EXPECT_GE(3 * drawn.with_writes, drawn.programs);
  // It must not pass by running nothing, nor by streaming nothing.
  // (Where memory is short, what some programs hold leaves no room for slots.)
  EXPECT_LE(5 * drawn.refused, drawn.runs);
  EXPECT_GT(drawn.plain_bytes, 0);
  EXPECT_GE(10 * drawn.plain_streamed_bytes, 6 * drawn.plain_bytes);
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomProgramsTest, testing::Range(0, kChunks));

// The harness sees what it is there for: a program that gives other bytes, an
// error of a run, and a program that does not compile.
TEST(RandomProgramsHarnessTest, WhatDiffersIsToldWithASmallProgram) {
  set_deterministic_mode();
  const TorchScope scope(1);
  RandomProgram program = draw_program(1);
  while (!program.is_plain()) program = draw_program(program.seed + 1);
  const auto package = ProgramPackage::create(program, ProgramForm::kScripted);
  ASSERT_TRUE(package.ok()) << package.status();
  ProgramRunner runner(**package);
  auto expected = runner.run_resident();
  ASSERT_TRUE(expected.ok()) << expected.status();
  const RankPolicy policy = *make_policy(program, ProgramPolicy::kLayer, 1);
  EXPECT_EQ(runner.run_offloaded(policy, *expected).outcome,
            PolicyResult::Outcome::kSame);
  expected->back().back() ^= 1;
  EXPECT_EQ(runner.run_offloaded(policy, *expected).outcome,
            PolicyResult::Outcome::kDiffers);
  RandomProgram wrong = program;
  wrong.functions.push_back({"def f(v: Tensor) -> Tensor:", {{"v =", true}}});
  const auto uncompilable =
      ProgramPackage::create(wrong, ProgramForm::kScripted);
  EXPECT_FALSE(ProgramRunner(**uncompilable).run_resident().ok());
  const RandomProgram shrunk =
      shrink_program(program, [](const RandomProgram& less) {
        return absl::StrContains(less.source(), "x = (self).mix(x)");
      });
  EXPECT_EQ(shrunk.removable(), 1U);
  EXPECT_LT(shrunk.source().size(), program.source().size());
}

TEST(RandomProgramsHarnessTest, ASeedAlwaysDrawsTheSameProgram) {
  EXPECT_EQ(draw_program(7).source(), draw_program(7).source());
  EXPECT_NE(draw_program(7).source(), draw_program(8).source());
}

// Kinds of statements that no operator tells of.
TEST(RandomProgramsHarnessTest, ProgramsHaveWhatMustBeDrawn) {
  for (const char* const code :
       {"CONSTANTS.c", "torch.backward(", "torch.autograd.grad(",
        "torch.set_grad_enabled(False)", ".count = torch.add(",
        ".count_buffer, 1)", "torch.to("}) {
    int found = 0;
    for (uint64_t seed = 1; seed <= 2000; ++seed) {
      found += absl::StrContains(draw_program(seed).source(), code) ? 1 : 0;
    }
    EXPECT_GE(found, 60) << code;
  }
}

}  // namespace
}  // namespace ferry
