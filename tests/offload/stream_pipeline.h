#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/jit/api/module.h>

#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "offload/offloadable_module.h"
#include "pipelines/torchscript/torchscript_module.h"
#include "tests/offload/stream_case.h"

namespace ferry {

// The pipeline of one case, ready to run, and to be offloaded.
class StreamPipeline {
 public:
  static absl::StatusOr<std::unique_ptr<StreamPipeline>> create(
      const StreamCase& wanted);

  OffloadableModule& module() { return *module_; }

  // Three steps of two passes each. A failing case fails in the second step,
  // and goes on. Everything that came out.
  absl::StatusOr<std::vector<at::Tensor>> generate();
  // What the methods wrote goes back to what it was. REQUIRES: not offloaded.
  void restore_state();
  // Changes a byte of the block that the ring of the first DiT streams last.
  // REQUIRES: not offloaded.
  void flip_byte_of_last_block();
  // The values of everything that the methods wrote.
  std::vector<at::Tensor> written_state() const;

 private:
  StreamPipeline(const StreamCase& wanted, torch::jit::Module root);

  absl::StatusOr<at::Tensor> denoise(double level, double guidance, bool fail);

  const StreamCase case_;
  const torch::jit::Module root_;
  std::unique_ptr<TorchscriptModule> module_;
  // Each block's `memory`: the block, the tensor it had, its values.
  struct Memory {
    torch::jit::Module block;
    at::Tensor tensor;
    at::Tensor values;
  };
  std::vector<Memory> memories_;
};

}  // namespace ferry
