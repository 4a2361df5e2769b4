#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/jit/api/module.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "offload/offloadable_module.h"
#include "pipelines/torchscript/torchscript_module.h"
#include "tests/offload/stream_case.h"

namespace ferry {

// A pipeline of the matrix, ready to run, and to be offloaded. It depends on
// the dimensions that are the pipeline's.
class StreamPipeline {
 public:
  static absl::StatusOr<std::unique_ptr<StreamPipeline>> create(
      const StreamCase& wanted);

  OffloadableModule& module() { return *module_; }

  // Begins with the state that the pipeline was made with. Three steps of two
  // passes each, over latents that `input` seeds. A failing
  // pipeline fails in the second step, and goes on. Everything that came out.
  absl::StatusOr<std::vector<at::Tensor>> generate(uint64_t input);
  // Changes a byte of a block, or changes it back. For one that is not
  // offloaded: LibTorch refuses the bytes of a tensor that is not bound.
  void flip_byte(const std::string& block);
  // The values of everything that the methods wrote since then.
  std::vector<at::Tensor> written_state() const;

 private:
  StreamPipeline(const StreamCase& wanted, torch::jit::Module root);

  absl::StatusOr<at::Tensor> denoise(const at::Tensor& latents, double level,
                                     bool fail);

  const StreamCase case_;
  const torch::jit::Module root_;
  std::unique_ptr<TorchscriptModule> module_;
  // Those with a `memory`.
  std::vector<torch::jit::Module> blocks_;
};

}  // namespace ferry
