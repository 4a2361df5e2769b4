#include "tests/offload/run_program.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/randn.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/jit/api/module.h>

#include <memory>
#include <optional>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "offload/module_discovery.h"
#include "offload/offload_config.h"
#include "offload/omni_diffusion_config.h"
#include "offload/resolved_plan.h"
#include "offload/torch_status.h"
#include "pipelines/torchscript/module_tree_reader.h"
#include "pipelines/torchscript/torchscript_module.h"
#include "platform/base/status_macros.h"
#include "tests/offload/load_program.h"
#include "tests/offload/program_statements.h"

namespace ferry {
namespace {

using Outcome = PolicyResult::Outcome;

std::string bytes_of(const at::Tensor& tensor) {
  const at::Tensor dense = tensor.contiguous();
  return std::string(static_cast<const char*>(dense.const_data_ptr()),
                     dense.nbytes());
}

// One generation: what each call returned. `before_last_step` is called where
// its name says.
absl::StatusOr<std::vector<at::Tensor>> generate(
    const torch::jit::Module& root, const RandomProgram& program,
    int generation, const std::function<void()>& before_last_step) {
  const uint64_t seed = program.seed * 31 + static_cast<uint64_t>(generation);
  std::vector<at::Tensor> outputs;
  RETURN_IF_ERROR(call_torch("run", [&] {
    const c10::AutoGradMode no_grad(false);
    at::manual_seed(seed);
    at::Generator generator = at::detail::createCPUGenerator(seed);
    const at::Tensor latents =
        at::randn({2, kProgramWidth}, generator, at::kFloat);
    at::Tensor x =
        root.get_method("encode")({latents.clone()}).toTensor().clone();
    outputs.push_back(x);
    for (const double level : {1000.0, 600.0, 200.0}) {
      if (level == 200.0) before_last_step();
      x = root.get_method("denoise")({x.clone(), level}).toTensor().clone();
      outputs.push_back(x);
    }
    outputs.push_back(
        root.get_method("decode")({x.clone()}).toTensor().clone());
  }));
  return outputs;
}

std::string joined_bytes(const std::vector<at::Tensor>& tensors) {
  std::string bytes;
  for (const at::Tensor& tensor : tensors) bytes += bytes_of(tensor);
  return bytes;
}

// A program that can be offloaded.
struct Loaded {
  torch::jit::Module root;
  std::unique_ptr<TorchscriptModule> module;
};

absl::StatusOr<Loaded> load(const RandomProgram& program) {
  Loaded loaded;
  RETURN_IF_ERROR(
      call_torch("load", [&] { loaded.root = load_program(program); }));
  ASSIGN_OR_RETURN(TorchscriptTree tree, read_module_tree(loaded.root));
  ASSIGN_OR_RETURN(const Discovery discovery, discover(tree.tree));
  ASSIGN_OR_RETURN(loaded.module,
                   TorchscriptModule::create(std::move(tree), discovery));
  return loaded;
}

PolicyResult differs(std::string message) {
  PolicyResult result;
  result.outcome = Outcome::kDiffers;
  result.message = std::move(message);
  return result;
}

PolicyResult refused(const absl::Status& status) {
  PolicyResult result;
  result.outcome = Outcome::kRefused;
  result.message = status.ToString();
  return result;
}

void count_bytes(const OffloadableModule& module, const ResolvedPlan& plan,
                 PolicyResult* result) {
  for (const OffloadableComponent& component : module.components()) {
    for (const BlockStack& stack : component.stacks) {
      for (const OffloadableBlock& block : stack.blocks) {
        result->block_bytes += block.bytes;
      }
    }
  }
  for (const PlannedComponent& component : plan.components) {
    for (const PlannedStack& stack : component.stacks) {
      for (const PlannedBlock& block : stack.blocks) {
        if (!block.resident) result->streamed_bytes += block.bytes;
      }
    }
  }
}

// All ranks of a policy, one after the other, in each generation but the last.
std::string run_ranks_of(const RandomProgram& program,
                         const ProgramBytes& expected,
                         std::vector<Loaded>& modules, OffloadedRanks& ranks) {
  for (int g = 0; g + 1 < kProgramGenerations; ++g) {
    for (size_t r = 0; r < modules.size(); ++r) {
      PlacementBackend& backend = ranks.backend(static_cast<int>(r));
      const absl::Status reset = modules[r].module->reset_state();
      if (!reset.ok()) return reset.ToString();
      const auto outputs = generate(modules[r].root, program, g,
                                    [&] { backend.begin_last_step(); });
      if (!outputs.ok()) modules[r].module->reset_hooks();
      backend.end_generation();
      const std::string where =
          absl::StrCat("generation ", g, " of rank ", r, ": ");
      if (!outputs.ok()) {
        return absl::StrCat(where, outputs.status().ToString());
      }
      if (joined_bytes(*outputs) != expected[static_cast<size_t>(g)]) {
        return absl::StrCat(where, "other bytes");
      }
    }
  }
  return "";
}

constexpr size_t kPolicyWays = 8;
constexpr int kPolicyAmounts = 3;

// A way to offload, and of how much: slots, memory, ranks. None where the
// program has not what it needs, or where the amount makes no difference.
std::optional<RankPolicy> make_policy(const RandomProgram& program, size_t way,
                                      int amount) {
  RankPolicy policy;
  OmniDiffusionConfig config;
  DiffusionOffloadConfig& compact = config.diffusion_offload_config.emplace();
  const bool has_encoder = !program.encoders.empty();
  compact.mode = "layer";
  compact.components = std::vector<std::string>{"dit"};
  if (has_encoder) compact.components->push_back("text_encoder");
  if (way >= 5) policy.ranks = 1 + amount;
  switch (way) {
    case 0:
      policy.streams_all = true;
      policy.slots = 1 + amount;
      policy.name = absl::StrCat("layer, slots ", *policy.slots);
      break;
    case 1:
      // At least two are to be left.
      if (program.blocks < 3 || amount > 0) return std::nullopt;
      policy.name = "layer, one resident";
      compact.layer_options = {{"dit", std::nullopt, 1}};
      break;
    case 2:
      if (!has_encoder || amount > 0) return std::nullopt;
      policy.name = "module";
      compact.mode = "module";
      if (!program.vaes.empty()) compact.components->push_back("vae");
      break;
    case 3:
      compact.memory_budget_bytes = static_cast<int64_t>(3 + amount) << 14;
      policy.name =
          absl::StrCat("layer, budget ", *compact.memory_budget_bytes);
      break;
    case 4:
      compact = DiffusionOffloadConfig();
      compact.mode = "auto";
      compact.headroom_bytes = 1024;
      policy.memory_bytes = int64_t{1} << (15 + amount);
      policy.name = absl::StrCat("auto, memory ", policy.memory_bytes);
      break;
    case 5:
      if (policy.ranks == 1) return std::nullopt;
      policy.name = absl::StrCat("layer, ranks ", policy.ranks);
      break;
    default:
      if (policy.ranks == 1 || !program.is_in_order) return std::nullopt;
      if (way == 7 && !has_encoder) return std::nullopt;
      policy.name =
          absl::StrCat(way == 6 ? "gathered DiTs" : "gathered encoder",
                       ", ranks ", policy.ranks);
      compact.layer_options = {
          {way == 6 ? "dit" : "text_encoder", "allgather", std::nullopt}};
  }
  config.parallel_config.data_parallel_size = policy.ranks;
  policy.config = *OffloadConfig::from_od_config(config);
  return policy;
}

}  // namespace

absl::StatusOr<ProgramBytes> run_resident(
    const RandomProgram& program, std::map<std::string, int>* operators) {
  ProgramBytes bytes;
  for (int g = 0; g < kProgramGenerations; ++g) {
    // Loaded again it has the state that it is loaded with.
    torch::jit::Module root;
    RETURN_IF_ERROR(call_torch("load", [&] { root = load_program(program); }));
    if (operators != nullptr) *operators = count_operators(root);
    ASSIGN_OR_RETURN(const std::vector<at::Tensor> outputs,
                     generate(root, program, g, [] {}));
    for (const at::Tensor& output : outputs) {
      if (!at::isfinite(output).all().item<bool>()) {
        return absl::OutOfRangeError("a number is not finite");
      }
    }
    bytes.push_back(joined_bytes(outputs));
  }
  return bytes;
}

PolicyResult run_offloaded(const RandomProgram& program,
                           const RankPolicy& policy,
                           const ProgramBytes& expected) {
  OffloadedRanks ranks(policy);
  std::vector<Loaded> modules;
  const absl::Cleanup close = [&] { ranks.close(); };
  std::vector<OffloadableModule*> offloadable;
  for (int r = 0; r < policy.ranks; ++r) {
    absl::StatusOr<Loaded> loaded = load(program);
    if (!loaded.ok()) return refused(loaded.status());
    modules.push_back(*std::move(loaded));
    offloadable.push_back(modules.back().module.get());
  }
  const absl::Status enabled = ranks.enable(offloadable);
  if (!enabled.ok()) return refused(enabled);
  PolicyResult result;
  count_bytes(*offloadable[0], *ranks.backend(0).plan(), &result);
  std::string problem = run_ranks_of(program, expected, modules, ranks);
  const absl::Status disabled = ranks.disable();
  if (problem.empty() && !disabled.ok()) problem = disabled.ToString();
  const std::vector<std::string> violations = ranks.violations();
  if (problem.empty() && !violations.empty()) {
    problem = absl::StrJoin(violations, "; ");
  }
  if (!problem.empty()) return differs(problem);
  // Nothing is left of what was written.
  for (const Loaded& loaded : modules) {
    const int last = kProgramGenerations - 1;
    const absl::Status reset = loaded.module->reset_state();
    if (!reset.ok()) return differs(reset.ToString());
    const auto outputs = generate(loaded.root, program, last, [] {});
    if (!outputs.ok() ||
        joined_bytes(*outputs) != expected[static_cast<size_t>(last)]) {
      return differs("after the policy was disabled: other bytes");
    }
  }
  return result;
}

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

std::vector<RankPolicy> all_policies(const RandomProgram& program) {
  std::vector<RankPolicy> policies;
  for (size_t way = 0; way < kPolicyWays; ++way) {
    for (int amount = 0; amount < kPolicyAmounts; ++amount) {
      std::optional<RankPolicy> policy = make_policy(program, way, amount);
      if (policy) policies.push_back(*std::move(policy));
    }
  }
  return policies;
}

std::vector<RankPolicy> draw_policies(const RandomProgram& program) {
  ProgramDraws draws(program.seed ^ 0x9e3779b97f4a7c15);
  std::vector<RankPolicy> policies;
  size_t first = kPolicyWays;
  while (policies.size() < 2) {
    const size_t way = draws.below(kPolicyWays);
    std::optional<RankPolicy> policy = make_policy(
        program, way, static_cast<int>(draws.below(kPolicyAmounts)));
    // Groups take longer.
    const bool is_wanted =
        policy && way != first && (policy->ranks == 1 || draws.one_in(6));
    if (!is_wanted) continue;
    first = way;
    policies.push_back(*std::move(policy));
  }
  return policies;
}

ProgramReport check_program(const RandomProgram& program, bool shrinks) {
  ProgramReport report;
  const auto expected = run_resident(program, &report.operators);
  if (!expected.ok()) {
    report.message = absl::StrCat("program ", program.seed,
                                  " is no good: ", expected.status().ToString(),
                                  "\n", program.source());
    return report;
  }
  report.policies = draw_policies(program);
  for (const RankPolicy& policy : report.policies) {
    report.results.push_back(run_offloaded(program, policy, *expected));
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
      const auto bytes = run_resident(less);
      return bytes.ok() &&
             run_offloaded(less, policy, *bytes).outcome == Outcome::kDiffers;
    };
    absl::StrAppend(&report.message, "--- shrunk ---\n",
                    shrink_program(program, fails).source());
  }
  return report;
}

}  // namespace ferry
