#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tests/offload/offloaded_ranks.h"
#include "tests/offload/random_program.h"

namespace ferry {

// Every policy that suits a program, with one to three ranks.
std::vector<RankPolicy> all_policies(const RandomProgram& program);
// The policies that a seed's program is run by: two different ones.
std::vector<RankPolicy> draw_policies(const RandomProgram& program);

// What a program gives, one generation after the other, each with LibTorch's
// global generator at a seed of its own: the bytes of everything that Root's
// methods return. Each begins with the state that the program is loaded with.
using ProgramBytes = std::vector<std::string>;
inline constexpr int kProgramGenerations = 3;

// Without offloading, and without a trace of it in the program. An error: it is
// no good program, or a number in what it gives is not finite.
// Counts its operators, if `operators` is not null.
absl::StatusOr<ProgramBytes> run_resident(
    const RandomProgram& program,
    std::map<std::string, int>* operators = nullptr);

// How a program fares under a policy.
struct PolicyResult {
  enum class Outcome {
    kSame,
    // With a reason, before anything ran.
    kRefused,
    // Other bytes, an error of a run, or something that a device found wrong.
    kDiffers
  };
  Outcome outcome = Outcome::kSame;
  std::string message;
  // Of the blocks of all components, and of those what streams.
  int64_t block_bytes = 0;
  int64_t streamed_bytes = 0;
};

// Runs a program by a policy, all ranks of it, and compares: all generations
// but the last are offloaded.
PolicyResult run_offloaded(const RandomProgram& program,
                           const RankPolicy& policy,
                           const ProgramBytes& expected);

// The program, for which `fails` holds, without whatever is not needed for it.
RandomProgram shrink_program(
    RandomProgram program,
    const std::function<bool(const RandomProgram&)>& fails);

// One program by its policies. `message` says what is wrong, with the seed, the
// source and, if it is to be shrunk, what is left of it; empty when all is
// well.
struct ProgramReport {
  std::string message;
  // As count_operators() counts them.
  std::map<std::string, int> operators;
  std::vector<RankPolicy> policies;
  std::vector<PolicyResult> results;
};
ProgramReport check_program(const RandomProgram& program, bool shrinks);

}  // namespace ferry
