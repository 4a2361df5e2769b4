#pragma once

#include <optional>
#include <vector>

#include "tests/offload/offloaded_ranks.h"
#include "tests/offload/random_program.h"

namespace ferry {

// Ways to offload a program. Each may be had with one to three ranks, but those
// that gather, which one rank cannot.
enum class ProgramPolicy {
  kLayer,
  // One block of each DiT stays.
  kResidentLayer,
  kBudget,
  kModule,
  kAuto,
  kGatheredDits,
  kGatheredEncoders,
};
inline constexpr int kProgramPolicies = 7;
const char* to_string(ProgramPolicy policy);
// How much memory there is, or how many slots: more or less.
inline constexpr int kProgramAmounts = 3;

// A policy of so many ranks. `amount`, below kProgramAmounts, says how many
// slots or how much memory there are, where that makes a difference. None where
// the program has not what it needs.
std::optional<RankPolicy> make_policy(const RandomProgram& program,
                                      ProgramPolicy policy, int ranks,
                                      int amount = 0);
// Every policy that suits a program, with one to three ranks.
std::vector<RankPolicy> all_policies(const RandomProgram& program);
// The policies that a seed's program is run by: two different ones, which
// blocks in any order suit.
std::vector<RankPolicy> draw_policies(const RandomProgram& program);

}  // namespace ferry
