#include "tests/offload/check_program.h"

#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/offload/program_package.h"
#include "tests/offload/program_policies.h"

namespace ferry {
namespace {

using Outcome = PolicyResult::Outcome;

// Whether a program is a good one, and differs by the last of the first `count`
// policies, one after the other.
bool differs(const RandomProgram& program,
             const std::vector<RankPolicy>& policies, size_t count) {
  const auto package = ProgramPackage::create(program, ProgramForm::kScripted);
  ProgramRunner runner(**package);
  const auto expected = runner.run_resident();
  if (!expected.ok()) return false;
  Outcome outcome = Outcome::kSame;
  for (size_t i = 0; i < count; ++i) {
    outcome = runner.run_offloaded(policies[i], *expected).outcome;
  }
  return outcome == Outcome::kDiffers;
}

}  // namespace

RandomProgram shrink_program(
    RandomProgram program,
    const std::function<bool(const RandomProgram&)>& fails) {
  bool is_smaller = true;
  while (is_smaller) {
    is_smaller = false;
    for (size_t i = program.removable(); i-- > 0;) {
      RandomProgram less = program.without(i);
      if (!fails(less)) continue;
      program = std::move(less);
      is_smaller = true;
    }
  }
  program.is_stripped = true;
  if (!fails(program)) program.is_stripped = false;
  return program;
}

ProgramReport check_program(const RandomProgram& program, bool shrinks) {
  ProgramReport report;
  const auto package = ProgramPackage::create(program, ProgramForm::kScripted);
  ProgramRunner runner(**package);
  const auto expected = runner.run_resident(&report.operators);
  if (!expected.ok()) {
    report.message = absl::StrCat("program ", program.seed,
                                  " is no good: ", expected.status().ToString(),
                                  "\n", program.source());
    return report;
  }
  report.policies = draw_policies(program);
  for (const RankPolicy& policy : report.policies) {
    report.results.push_back(runner.run_offloaded(policy, *expected));
    const PolicyResult& result = report.results.back();
    if (result.outcome != Outcome::kDiffers || !report.message.empty()) {
      continue;
    }
    report.message = absl::StrCat("program ", program.seed, " (",
                                  to_string(program.oddities), ") by policy \"",
                                  policy.name, "\": ", result.message,
                                  "\n--- the program ---\n", program.source());
    if (!shrinks) continue;
    const auto fails = [&](const RandomProgram& less) {
      return differs(less, report.policies, report.results.size());
    };
    absl::StrAppend(&report.message, "--- shrunk ---\n",
                    shrink_program(program, fails).source());
  }
  return report;
}

}  // namespace ferry
