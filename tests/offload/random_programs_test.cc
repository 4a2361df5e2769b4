// Random programs give the same bytes by every offload policy: 2,000 of them,
// drawn from fixed seeds. `make fuzz-programs` runs others for as long as
// asked.

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <map>
#include <string>

#include "absl/strings/match.h"
#include "pipelines/torchscript/torch_settings.h"
#include "tests/offload/draw_program.h"
#include "tests/offload/load_program.h"
#include "tests/offload/random_program.h"
#include "tests/offload/run_program.h"

namespace ferry {
namespace {

constexpr int kChunks = 16;
constexpr int kProgramsOfChunk = 130;

// What the programs of a chunk had, from what was compiled.
struct Drawn {
  int programs = 0;
  std::map<std::string, int> operators;
  int with_hooks = 0;
  int with_views = 0;
  int with_writes = 0;

  void add(const RandomProgram& program) {
    ++programs;
    with_hooks += program.has_hooks() ? 1 : 0;
    bool has_view = false;
    bool has_write = false;
    for (const auto& [name, count] : count_operators(load_program(program))) {
      operators[name] += count;
      has_view |= is_view(name);
      has_write |= absl::EndsWith(name, "_");
    }
    with_views += has_view ? 1 : 0;
    with_writes += has_write ? 1 : 0;
  }

  int operator_count() const {
    int count = 0;
    for (const auto& [name, of_name] : operators) count += of_name;
    return count;
  }

 private:
  static bool is_view(const std::string& name) {
    for (const char* const view :
         {"aten::t", "aten::transpose", "aten::permute", "aten::select",
          "aten::slice", "aten::narrow", "aten::reshape", "aten::view",
          "aten::expand", "aten::unbind", "aten::diagonal", "aten::alias"}) {
      if (name == view) return true;
    }
    return false;
  }
};

class RandomProgramsTest : public testing::TestWithParam<int> {
 protected:
  RandomProgramsTest() : scope_(1) { set_deterministic_mode(); }

  TorchScope scope_;
};

TEST_P(RandomProgramsTest, OffloadedIsResident) {
  Drawn drawn;
  int runs = 0;
  int refused = 0;
  int64_t plain_bytes = 0;
  int64_t plain_streamed = 0;
  for (int i = 0; i < kProgramsOfChunk; ++i) {
    const auto seed =
        static_cast<uint64_t>(GetParam() * kProgramsOfChunk + i + 1);
    const RandomProgram program = draw_program(seed);
    drawn.add(program);
    const ProgramReport report = check_program(program, true);
    ASSERT_EQ(report.message, "");
    for (size_t p = 0; p < report.results.size(); ++p) {
      const PolicyResult& result = report.results[p];
      ++runs;
      refused += result.outcome == PolicyResult::Outcome::kRefused ? 1 : 0;
      // Others keep blocks by themselves.
      if (!program.is_plain() || !report.policies[p].streams_all) continue;
      plain_bytes += result.block_bytes;
      plain_streamed += result.streamed_bytes;
    }
  }
  std::printf(
      "random programs: %d, %zu kinds of operators, %d operators; hooks in %d, "
      "views in %d, writes in %d; %d of %d runs refused; %lld of %lld bytes "
      "of plain programs stream\n",
      drawn.programs, drawn.operators.size(), drawn.operator_count(),
      drawn.with_hooks, drawn.with_views, drawn.with_writes, refused, runs,
      static_cast<long long>(plain_streamed),
      static_cast<long long>(plain_bytes));
  EXPECT_GE(drawn.operators.size(), 60U);
  EXPECT_GE(drawn.operator_count(), 12 * drawn.programs);
  EXPECT_GE(3 * drawn.with_hooks, drawn.programs);
  EXPECT_GE(3 * drawn.with_views, drawn.programs);
  EXPECT_GE(3 * drawn.with_writes, drawn.programs);
  // It must not pass by running nothing, nor by streaming nothing.
  EXPECT_LE(20 * refused, 3 * runs);
  EXPECT_GE(10 * plain_streamed, 6 * plain_bytes);
  EXPECT_GT(plain_bytes, 0);
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomProgramsTest, testing::Range(0, kChunks));

// The harness sees what it is there for: a program that gives other bytes, an
// error of a run, and a program that does not compile.
TEST(RandomProgramsHarnessTest, WhatDiffersIsToldWithASmallProgram) {
  set_deterministic_mode();
  const TorchScope scope(1);
  RandomProgram program = draw_program(1);
  while (!program.is_plain()) program = draw_program(program.seed + 1);
  auto expected = run_resident(program);
  ASSERT_TRUE(expected.ok()) << expected.status();
  const RankPolicy policy = draw_policies(program)[0];
  EXPECT_EQ(run_offloaded(program, policy, *expected).outcome,
            PolicyResult::Outcome::kSame);
  expected->back().back() ^= 1;
  EXPECT_EQ(run_offloaded(program, policy, *expected).outcome,
            PolicyResult::Outcome::kDiffers);
  RandomProgram wrong = program;
  wrong.functions.push_back({"def f(v: Tensor) -> Tensor:", {{"v =", true}}});
  EXPECT_FALSE(run_resident(wrong).ok());
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

}  // namespace
}  // namespace ferry
