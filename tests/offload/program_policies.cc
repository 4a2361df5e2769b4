#include "tests/offload/program_policies.h"

#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "offload/offload_config.h"
#include "offload/omni_diffusion_config.h"
#include "tests/offload/program_statements.h"

namespace ferry {
namespace {

constexpr int kMostRanks = 3;
// What a device has memory for, in percent of all weights: for all of them, for
// nearly all.
constexpr int64_t kPercent[kProgramAmounts] = {130, 97, 89};
constexpr int64_t kHeadroomBytes = 1024;
// Of a link so slow that ranks would rather gather.
constexpr double kSlowGbps = 0.001;

bool gathers(ProgramPolicy policy) {
  return policy == ProgramPolicy::kGatheredDits ||
         policy == ProgramPolicy::kGatheredEncoders;
}

// Amounts that differ.
int amounts_of(ProgramPolicy policy) {
  switch (policy) {
    case ProgramPolicy::kLayer:
    case ProgramPolicy::kBudget:
    case ProgramPolicy::kAuto:
      return kProgramAmounts;
    default:
      return 1;
  }
}

bool suits(const RandomProgram& program, ProgramPolicy policy, int ranks) {
  switch (policy) {
    case ProgramPolicy::kResidentLayer:
      // At least two are to be left.
      return program.blocks >= 3;
    case ProgramPolicy::kModule:
      return !program.encoders.empty();
    case ProgramPolicy::kGatheredDits:
      return ranks > 1;
    case ProgramPolicy::kGatheredEncoders:
      return ranks > 1 && !program.encoders.empty();
    default:
      return true;
  }
}

int64_t bytes_of(const RandomProgram& program, int amount) {
  return program.image_bytes() * kPercent[amount] / 100;
}

DiffusionOffloadConfig layerwise(const RandomProgram& program) {
  DiffusionOffloadConfig compact;
  compact.mode = "layer";
  compact.components = std::vector<std::string>{"dit"};
  if (!program.encoders.empty()) {
    compact.components->push_back("text_encoder");
  }
  return compact;
}

DiffusionOffloadConfig compact_config(const RandomProgram& program,
                                      ProgramPolicy policy, int amount) {
  DiffusionOffloadConfig compact = layerwise(program);
  switch (policy) {
    case ProgramPolicy::kLayer:
      break;
    case ProgramPolicy::kResidentLayer:
      compact.layer_options = {{"dit", std::nullopt, 1}};
      break;
    case ProgramPolicy::kBudget:
      compact.memory_budget_bytes = bytes_of(program, amount);
      break;
    case ProgramPolicy::kModule:
      compact.mode = "module";
      if (!program.vaes.empty()) compact.components->push_back("vae");
      break;
    case ProgramPolicy::kAuto:
      compact = DiffusionOffloadConfig();
      compact.mode = "auto";
      compact.headroom_bytes = kHeadroomBytes;
      break;
    case ProgramPolicy::kGatheredDits:
      compact.layer_options = {{"dit", "allgather", std::nullopt}};
      break;
    case ProgramPolicy::kGatheredEncoders:
      compact.layer_options = {{"text_encoder", "allgather", std::nullopt}};
  }
  return compact;
}

}  // namespace

const char* to_string(ProgramPolicy policy) {
  static constexpr const char* kNames[kProgramPolicies] = {
      "layer", "one resident",  "budget",           "module",
      "auto",  "gathered DiTs", "gathered encoders"};
  return kNames[static_cast<size_t>(policy)];
}

std::optional<RankPolicy> make_policy(const RandomProgram& program,
                                      ProgramPolicy policy, int ranks,
                                      int amount) {
  if (!suits(program, policy, ranks)) return std::nullopt;
  RankPolicy made;
  made.name =
      absl::StrCat(to_string(policy), ", amount ", amount, ", ranks ", ranks);
  made.ranks = ranks;
  if (policy == ProgramPolicy::kLayer) {
    made.streams_all = true;
    if (ranks == 1) made.slots = 1 + amount;
  }
  if (policy == ProgramPolicy::kAuto) {
    made.memory_bytes = bytes_of(program, amount) + kHeadroomBytes;
    if (ranks > 1) made.h2d_gbps = kSlowGbps;
  }
  OmniDiffusionConfig config;
  config.diffusion_offload_config = compact_config(program, policy, amount);
  config.parallel_config.data_parallel_size = ranks;
  made.config = *OffloadConfig::from_od_config(config);
  return made;
}

std::vector<RankPolicy> all_policies(const RandomProgram& program) {
  std::vector<RankPolicy> policies;
  for (int i = 0; i < kProgramPolicies; ++i) {
    const auto policy = static_cast<ProgramPolicy>(i);
    for (int ranks = 1; ranks <= kMostRanks; ++ranks) {
      for (int amount = 0; amount < amounts_of(policy); ++amount) {
        // Groups take longer: of them the one that has the least memory.
        if (ranks > 1 && amount + 1 < amounts_of(policy)) continue;
        auto made = make_policy(program, policy, ranks, amount);
        if (made) policies.push_back(*std::move(made));
      }
    }
  }
  return policies;
}

std::vector<RankPolicy> draw_policies(const RandomProgram& program) {
  ProgramDraws draws(program.seed ^ 0x9e3779b97f4a7c15);
  std::vector<RankPolicy> policies;
  std::optional<ProgramPolicy> first;
  while (policies.size() < 2) {
    const auto policy =
        static_cast<ProgramPolicy>(draws.below(kProgramPolicies));
    // Groups take longer.
    const bool is_group = draws.one_in(gathers(policy) ? 3 : 12);
    const int ranks = is_group ? 2 + static_cast<int>(draws.below(2)) : 1;
    auto made = make_policy(program, policy, ranks,
                            static_cast<int>(draws.below(kProgramAmounts)));
    const bool is_wanted =
        made && policy != first && (program.is_in_order || !gathers(policy));
    if (!is_wanted) continue;
    first = policy;
    policies.push_back(*std::move(made));
  }
  return policies;
}

}  // namespace ferry
