#include "tests/offload/run_program.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/scalar_tensor.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/jit/api/module.h>

#include <functional>
#include <memory>
#include <set>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "offload/module_discovery.h"
#include "offload/offloadable_module.h"
#include "offload/resolved_plan.h"
#include "offload/torch_status.h"
#include "pipelines/torchscript/module_tree_reader.h"
#include "platform/base/status_macros.h"
#include "tests/offload/load_program.h"

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
absl::StatusOr<std::vector<at::Tensor>> run_generation(
    const torch::jit::Module& root, uint64_t seed,
    const std::function<void()>& before_last_step) {
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
      x = root.get_method("denoise")({x.clone(), at::scalar_tensor(level)})
              .toTensor()
              .clone();
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

void describe_plan(const OffloadableModule& module, const ResolvedPlan& plan,
                   PolicyResult* result) {
  for (const OffloadableComponent& component : module.components()) {
    for (const BlockStack& stack : component.stacks) {
      for (const OffloadableBlock& block : stack.blocks) {
        result->block_bytes += block.bytes;
      }
    }
  }
  std::set<size_t> streamed;
  for (const PlannedComponent& component : plan.components) {
    for (const PlannedStack& stack : component.stacks) {
      for (const PlannedBlock& block : stack.blocks) {
        if (block.resident) continue;
        result->streamed_bytes += block.bytes;
        streamed.insert(block.module);
      }
    }
  }
  for (const StoragePlacement& storage : plan.storages) {
    if (storage.owner == StoragePlacement::Owner::kBlock &&
        streamed.count(storage.module) > 0) {
      result->streamed.insert(storage.name);
    }
  }
}

uint64_t seed_of(const RandomProgram& program, int generation) {
  return program.seed * 31 + static_cast<uint64_t>(generation);
}

}  // namespace

absl::StatusOr<ProgramBytes> ProgramRunner::run_resident(
    std::map<std::string, int>* operators) const {
  // Each has the state that it is loaded with.
  ASSIGN_OR_RETURN(const std::vector<torch::jit::Module> roots,
                   package_.load_resident(kProgramGenerations));
  if (operators != nullptr) *operators = count_operators(roots[0]);
  ProgramBytes bytes;
  for (int g = 0; g < kProgramGenerations; ++g) {
    ASSIGN_OR_RETURN(const std::vector<at::Tensor> outputs,
                     run_generation(roots[static_cast<size_t>(g)],
                                    seed_of(package_.program(), g), [] {}));
    for (const at::Tensor& output : outputs) {
      if (!at::isfinite(output).all().item<bool>()) {
        return absl::OutOfRangeError("a number is not finite");
      }
    }
    bytes.push_back(joined_bytes(outputs));
  }
  return bytes;
}

absl::Status ProgramRunner::load(size_t ranks) {
  while (loaded_.size() < ranks) {
    Loaded loaded;
    ASSIGN_OR_RETURN(loaded.root, package_.load());
    ASSIGN_OR_RETURN(TorchscriptTree tree, read_module_tree(loaded.root));
    ASSIGN_OR_RETURN(const Discovery discovery, discover(tree.tree));
    ASSIGN_OR_RETURN(loaded.module,
                     TorchscriptModule::create(std::move(tree), discovery));
    loaded_.push_back(std::move(loaded));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<at::Tensor>> ProgramRunner::generate(
    const Loaded& loaded, int generation, PlacementBackend* backend) {
  RETURN_IF_ERROR(loaded.module->reset_state());
  auto outputs =
      run_generation(loaded.root, seed_of(package_.program(), generation), [&] {
        if (backend != nullptr) backend->begin_last_step();
      });
  if (!outputs.ok()) loaded.module->reset_hooks();
  if (backend != nullptr) backend->end_generation();
  return outputs;
}

// As a worker starts its ranks: what is given up is loaded again.
absl::Status ProgramRunner::enable(size_t count, OffloadedRanks& ranks) {
  for (const bool is_again : {false, true}) {
    RETURN_IF_ERROR(load(count));
    std::vector<OffloadableModule*> modules;
    for (size_t r = 0; r < count; ++r) {
      modules.push_back(loaded_[r].module.get());
    }
    RETURN_IF_ERROR(ranks.enable(modules));
    ASSIGN_OR_RETURN(const bool is_final, ranks.confirm([&](int r) {
      return generate(loaded_[static_cast<size_t>(r)], kProgramGenerations - 1,
                      &ranks.backend(r))
          .status();
    }));
    if (is_final) return absl::OkStatus();
    loaded_.clear();
    if (is_again) break;
  }
  return absl::InternalError("what was given up is given up again");
}

// All ranks of a policy, one after the other, in each generation but the last.
std::string ProgramRunner::compare(size_t count, OffloadedRanks& ranks,
                                   const ProgramBytes& expected) {
  for (int g = 0; g + 1 < kProgramGenerations; ++g) {
    for (size_t r = 0; r < count; ++r) {
      const auto outputs =
          generate(loaded_[r], g, &ranks.backend(static_cast<int>(r)));
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

// The same when they are enabled no more: nothing is left of what was written.
std::string ProgramRunner::compare_disabled(size_t count,
                                            const ProgramBytes& expected) {
  for (size_t r = 0; r < count; ++r) {
    const auto outputs = generate(loaded_[r], kProgramGenerations - 1, nullptr);
    if (!outputs.ok() || joined_bytes(*outputs) != expected.back()) {
      return "after the policy was disabled: other bytes";
    }
  }
  return "";
}

PolicyResult ProgramRunner::run_offloaded(const RankPolicy& policy,
                                          const ProgramBytes& expected) {
  past_.push_back(std::make_unique<OffloadedRanks>(policy));
  OffloadedRanks& ranks = *past_.back();
  const auto count = static_cast<size_t>(policy.ranks);
  const absl::Cleanup close = [&] { ranks.close(); };
  // Modules of which not all is well serve no other policy.
  absl::Cleanup drop = [&] {
    ranks.close();
    loaded_.clear();
  };
  const absl::Status enabled = enable(count, ranks);
  if (!enabled.ok()) return refused(enabled);
  PolicyResult result;
  result.reason = ranks.backend(0).reason();
  describe_plan(*loaded_[0].module, *ranks.backend(0).plan(), &result);
  std::string problem = compare(count, ranks, expected);
  const absl::Status disabled = ranks.disable();
  if (problem.empty() && !disabled.ok()) problem = disabled.ToString();
  const std::vector<std::string> violations = ranks.violations();
  if (problem.empty() && !violations.empty()) {
    problem = absl::StrJoin(violations, "; ");
  }
  if (problem.empty()) problem = compare_disabled(count, expected);
  if (!problem.empty()) return differs(problem);
  std::move(drop).Cancel();
  return result;
}

}  // namespace ferry
