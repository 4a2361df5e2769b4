// Programs that stand for one kind of fault each (program_kinds.h) give the
// same bytes by every policy with one to three ranks: as they are written by
// all of them; traced, and with their weights in files, by those of a table in
// which each kind meets each form, and each form each policy and number of
// ranks.

#include "tests/offload/program_kinds.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "pipelines/torchscript/torch_settings.h"
#include "tests/offload/many_rings.h"
#include "tests/offload/offloaded_ranks.h"
#include "tests/offload/program_kind.h"
#include "tests/offload/program_package.h"
#include "tests/offload/program_policies.h"
#include "tests/offload/random_program.h"
#include "tests/offload/run_program.h"

namespace ferry {
namespace {

using Outcome = PolicyResult::Outcome;
// A policy and a number of ranks.
using Key = std::pair<ProgramPolicy, int>;

constexpr auto kLayer = ProgramPolicy::kLayer;
constexpr auto kResidentLayer = ProgramPolicy::kResidentLayer;
constexpr auto kBudget = ProgramPolicy::kBudget;
constexpr auto kModule = ProgramPolicy::kModule;
constexpr auto kAuto = ProgramPolicy::kAuto;
constexpr auto kGatheredDits = ProgramPolicy::kGatheredDits;
constexpr auto kGatheredEncoders = ProgramPolicy::kGatheredEncoders;

// A policy and its ranks.
struct Place {
  ProgramPolicy policy;
  int ranks;
};

// By what a kind runs beside `layer` with one rank.
struct Pairing {
  const char* kind;
  // kNoTrace where no trace can be of the kind.
  Place traced;
  Place code_only;
};
constexpr Place kNoTrace = {kLayer, 0};

const std::vector<Pairing>& pairings() {
  static const auto* const kPairings = new std::vector<Pairing>{
      {"hook_of_encoder_reads_int8", {kLayer, 1}, {kGatheredEncoders, 2}},
      {"hook_returns_a_view", {kResidentLayer, 1}, {kGatheredDits, 2}},
      {"hook_writes_a_buffer", {kBudget, 1}, {kGatheredEncoders, 3}},
      {"pre_hook_reads_float8", {kModule, 1}, {kGatheredDits, 3}},
      {"instance_norm_in_encoder", {kAuto, 1}, {kAuto, 1}},
      {"batch_norm_on_a_row", {kGatheredDits, 2}, {kLayer, 2}},
      {"native_batch_norm_in_hook", {kGatheredDits, 3}, {kResidentLayer, 2}},
      {"sum_to_size_written", {kGatheredEncoders, 2}, {kBudget, 2}},
      {"to_dense_int8_written", {kLayer, 2}, {kModule, 2}},
      {"unsafe_split_float8_written", {kResidentLayer, 2}, {kAuto, 2}},
      {"cartesian_prod_written", {kGatheredEncoders, 3}, {kLayer, 3}},
      {"function_reads_int8", {kBudget, 2}, {kResidentLayer, 3}},
      {"function_writes", {kModule, 2}, {kBudget, 3}},
      {"function_of_an_interface", kNoTrace, {kModule, 3}},
      {"buffer_counts", {kAuto, 2}, {kAuto, 3}},
      {"attribute_is_replaced", kNoTrace, {kLayer, 1}},
      {"dict_keeps_a_view", kNoTrace, {kResidentLayer, 1}},
      {"attribute_is_written", {kLayer, 3}, {kBudget, 1}},
      {"randn_like_in_encoder", {kResidentLayer, 3}, {kModule, 1}},
      {"bernoulli_of_int8", {kBudget, 3}, {kAuto, 1}},
      {"dropout_in_dit", {kModule, 3}, {kLayer, 2}},
      {"gradient_through_int8", kNoTrace, {kResidentLayer, 2}},
      {"gradient_through_float8", kNoTrace, {kBudget, 2}},
      {"gradient_beside_an_encoder", kNoTrace, {kModule, 2}},
      {"as_strided_counts_from_the_start", {kAuto, 3}, {kAuto, 2}},
      {"as_strided_of_what_a_hook_got", {kLayer, 1}, {kLayer, 3}},
      {"storage_offset_is_a_number", kNoTrace, {kResidentLayer, 3}},
      {"as_strided_from_behind_the_start", {kResidentLayer, 1}, {kBudget, 3}},
      {"as_strided_of_what_a_block_returned", {kBudget, 1}, {kModule, 3}},
      {"encoder_runs_twice", {kGatheredEncoders, 2}, {kAuto, 3}},
      {"blocks_run_backwards", {kAuto, 3}, {kGatheredDits, 2}},
      {"block_runs_first_and_last", {kLayer, 2}, {kResidentLayer, 1}},
      {"encoder_runs_the_second_first", {kResidentLayer, 2}, {kAuto, 2}},
      {"dit_refines_in_the_end", {kAuto, 2}, {kModule, 1}},
  };
  return *kPairings;
}

const std::vector<NamedProgram>& kinds() {
  static const auto* const kKinds =
      new std::vector<NamedProgram>(program_kinds());
  return *kKinds;
}

// Whether ranks were to gather for blocks that they cannot gather for.
bool is_refused(const ProgramKind& kind, const RankPolicy& policy) {
  const std::string gathered =
      to_string(kind.is_encoder ? kGatheredEncoders : kGatheredDits);
  return !kind.is_in_order() && absl::StartsWith(policy.name, gathered);
}

// One kind in one form by some policies.
void expect_same(const NamedProgram& named, ProgramForm form,
                 const std::vector<RankPolicy>& policies) {
  SCOPED_TRACE(absl::StrCat(named.kind.name, ", ", to_string(form)));
  const auto package = ProgramPackage::create(named.program, form);
  ASSERT_TRUE(package.ok()) << package.status() << named.program.source();
  ProgramRunner runner(**package);
  const auto expected = runner.run_resident();
  ASSERT_TRUE(expected.ok()) << expected.status() << named.program.source();
  EXPECT_NE((*expected)[0], (*expected)[1]);
  for (const RankPolicy& policy : policies) {
    SCOPED_TRACE(policy.name);
    const PolicyResult result = runner.run_offloaded(policy, *expected);
    if (is_refused(named.kind, policy)) {
      EXPECT_EQ(result.outcome, Outcome::kRefused);
      EXPECT_TRUE(absl::StrContains(
          result.message, named.kind.is_encoder ? "text_encoder.blocks."
                                                : "transformer.blocks."))
          << result.message;
      continue;
    }
    EXPECT_EQ(result.outcome, Outcome::kSame) << result.message;
    if (policy.streams_all) {
      EXPECT_EQ(result.streamed, named.kind.streams(named.program));
    }
  }
}

class ProgramKindsTest : public testing::TestWithParam<size_t> {
 protected:
  ProgramKindsTest() : scope_(1) { set_deterministic_mode(); }

  static const NamedProgram& named() { return kinds()[GetParam()]; }
  static const Pairing& pairing() { return pairings()[GetParam()]; }
  // `layer`, and a place of the table.
  static std::vector<RankPolicy> policies_at(const Place& place) {
    return {*make_policy(named().program, kLayer, 1),
            *make_policy(named().program, place.policy, place.ranks,
                         kProgramAmounts - 1)};
  }

  TorchScope scope_;
};

TEST_P(ProgramKindsTest, ScriptedIsResidentByEveryPolicy) {
  const auto policies = all_policies(named().program);
  EXPECT_GE(policies.size(), 25U);
  expect_same(named(), ProgramForm::kScripted, policies);
}

TEST_P(ProgramKindsTest, TracedIsResident) {
  ASSERT_EQ(pairing().traced.ranks > 0, named().kind.untraceable.empty());
  if (pairing().traced.ranks == 0) GTEST_SKIP() << named().kind.untraceable;
  expect_same(named(), ProgramForm::kTraced, policies_at(pairing().traced));
}

TEST_P(ProgramKindsTest, CodeOnlyIsResident) {
  expect_same(named(), ProgramForm::kCodeOnly,
              policies_at(pairing().code_only));
}

// A trace says the same as the methods that were traced, if it writes none of
// its constants.
TEST_P(ProgramKindsTest, TracedIsScripted) {
  if (!named().kind.untraceable.empty()) GTEST_SKIP();
  if (named().kind.is_attribute) GTEST_SKIP() << "its constant is written";
  const auto traced =
      ProgramPackage::create(named().program, ProgramForm::kTraced);
  const auto scripted =
      ProgramPackage::create(named().program, ProgramForm::kScripted);
  ASSERT_TRUE(traced.ok() && scripted.ok());
  EXPECT_EQ(*ProgramRunner(**traced).run_resident(),
            *ProgramRunner(**scripted).run_resident());
}

INSTANTIATE_TEST_SUITE_P(Kinds, ProgramKindsTest,
                         testing::Range<size_t>(0, kinds().size()),
                         [](const auto& index) {
                           return kinds()[index.param].kind.name;
                         });

TEST(ProgramKindsTableTest, EachFormMeetsEachKindPolicyAndNumberOfRanks) {
  ASSERT_EQ(pairings().size(), kinds().size());
  std::set<Key> every;
  for (int i = 0; i < kProgramPolicies; ++i) {
    for (int ranks = 1; ranks <= 3; ++ranks) {
      const auto policy = static_cast<ProgramPolicy>(i);
      if (make_policy(kinds()[0].program, policy, ranks)) {
        every.insert({policy, ranks});
      }
    }
  }
  EXPECT_EQ(every.size(), 19U);
  std::set<Key> traced;
  std::set<Key> code_only;
  for (size_t i = 0; i < pairings().size(); ++i) {
    const Pairing& row = pairings()[i];
    EXPECT_EQ(row.kind, kinds()[i].kind.name);
    if (row.traced.ranks > 0) {
      traced.insert({row.traced.policy, row.traced.ranks});
    }
    code_only.insert({row.code_only.policy, row.code_only.ranks});
  }
  EXPECT_EQ(traced, every);
  EXPECT_EQ(code_only, every);
}

// More rings than a vote of the ranks has bits.
class ManyRingsTest
    : public testing::TestWithParam<
          std::tuple<const char*, RandomProgram (*)(int), int>> {};

TEST_P(ManyRingsTest, OffloadedIsResident) {
  set_deterministic_mode();
  const TorchScope scope(1);
  const auto& [name, make, count] = GetParam();
  const RandomProgram program = make(count);
  const auto package = ProgramPackage::create(program, ProgramForm::kScripted);
  ASSERT_TRUE(package.ok()) << package.status();
  ProgramRunner runner(**package);
  const auto expected = runner.run_resident();
  ASSERT_TRUE(expected.ok()) << expected.status() << program.source();
  for (const auto& [policy, ranks] :
       {Key{kLayer, 1}, Key{kBudget, 1}, Key{kAuto, 1}, Key{kAuto, 2},
        Key{kAuto, 3}, Key{kGatheredEncoders, 2}, Key{kGatheredEncoders, 3},
        Key{kGatheredDits, 2}}) {
    const auto made = make_policy(program, policy, ranks, kProgramAmounts - 1);
    SCOPED_TRACE(made->name);
    const PolicyResult result = runner.run_offloaded(*made, *expected);
    EXPECT_EQ(result.outcome, Outcome::kSame) << result.message;
    if (policy == kLayer || policy == kGatheredEncoders) {
      EXPECT_EQ(result.streamed.size(),
                static_cast<size_t>(kBlocksOfRing * (count + 1)));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Rings, ManyRingsTest,
    testing::Values(std::tuple("seventy_stacks", &many_stacks, 70),
                    std::tuple("hundred_stacks", &many_stacks, 100),
                    std::tuple("hundred_encoders", &many_encoders, 100)),
    [](const auto& info) { return std::string(std::get<0>(info.param)); });

}  // namespace
}  // namespace ferry
