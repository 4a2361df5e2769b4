#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/jit/api/module.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "offload/placement_backend.h"
#include "pipelines/torchscript/torchscript_module.h"
#include "tests/offload/offloaded_ranks.h"
#include "tests/offload/program_package.h"

namespace ferry {

// What a program gives, one generation after the other, each with LibTorch's
// global generator at a seed of its own: the bytes of everything that Root's
// methods return. Each begins with the state that the program is loaded with.
using ProgramBytes = std::vector<std::string>;
inline constexpr int kProgramGenerations = 3;

// How a program fares under a policy.
struct PolicyResult {
  enum class Outcome {
    kSame,
    // With a reason, before the first generation.
    kRefused,
    // Other bytes, an error of a run, or something that a device found wrong.
    kDiffers
  };
  Outcome outcome = Outcome::kSame;
  std::string message;
  // Of the blocks of all components, and of those what streams.
  int64_t block_bytes = 0;
  int64_t streamed_bytes = 0;
  // Paths of the tensors that stream.
  std::set<std::string> streamed;
  // Why the policy became what it is.
  std::string reason;
};

// Runs one program, in one form, without offloading and by any number of
// policies one after the other: they share the modules, which have hook points
// and are given back by one policy as they were before the next one.
//
// Threads: not thread-safe.
class ProgramRunner {
 public:
  // `package` outlives it.
  explicit ProgramRunner(const ProgramPackage& package) : package_(package) {}

  // Without offloading, and without a trace of it in the program. An error: it
  // is no good program, or a number in what it gives is not finite. Counts its
  // operators, if `operators` is not null.
  absl::StatusOr<ProgramBytes> run_resident(
      std::map<std::string, int>* operators = nullptr) const;
  // By all ranks of a policy, and compares: all generations but the last are
  // offloaded. Ranks that gather, or may, make the last one together before.
  PolicyResult run_offloaded(const RankPolicy& policy,
                             const ProgramBytes& expected);

 private:
  // A module that can be offloaded.
  struct Loaded {
    torch::jit::Module root;
    std::unique_ptr<TorchscriptModule> module;
  };

  absl::Status load(size_t ranks);
  absl::Status enable(size_t count, OffloadedRanks& ranks);
  absl::StatusOr<std::vector<at::Tensor>> generate(const Loaded& loaded,
                                                   int generation,
                                                   PlacementBackend* backend);
  std::string compare(size_t count, OffloadedRanks& ranks,
                      const ProgramBytes& expected);
  std::string compare_disabled(size_t count, const ProgramBytes& expected);

  const ProgramPackage& package_;
  // Their devices own memory that modules were given back in.
  std::vector<std::unique_ptr<OffloadedRanks>> past_;
  // By rank.
  std::vector<Loaded> loaded_;
};

}  // namespace ferry
