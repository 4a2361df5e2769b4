#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tests/offload/offloaded_ranks.h"
#include "tests/offload/random_program.h"
#include "tests/offload/run_program.h"

namespace ferry {

// The program, for which `fails` holds, without whatever is not needed for it.
RandomProgram shrink_program(
    RandomProgram program,
    const std::function<bool(const RandomProgram&)>& fails);

// One program, scripted, by two policies that are drawn for it. `message` says
// what is wrong, with the seed, the source and, if it is to be shrunk, what is
// left of it; empty when all is well.
struct ProgramReport {
  std::string message;
  // As count_operators() counts them.
  std::map<std::string, int> operators;
  std::vector<RankPolicy> policies;
  std::vector<PolicyResult> results;
};
ProgramReport check_program(const RandomProgram& program, bool shrinks);

}  // namespace ferry
