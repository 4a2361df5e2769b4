#include "pipelines/torchscript/torch_settings.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <torch/csrc/jit/codegen/fuser/interface.h>
#include <torch/csrc/jit/passes/tensorexpr_fuser.h>
#include <torch/csrc/jit/runtime/graph_executor.h>

#include <mutex>

namespace ferry {

void set_deterministic_mode() {
  torch::jit::getExecutorMode() = true;
  torch::jit::getProfilingMode() = false;
  torch::jit::setTensorExprFuserEnabled(false);
  torch::jit::overrideCanFuseOnCPU(false);
  torch::jit::overrideCanFuseOnGPU(false);
  at::Context& context = at::globalContext();
  // Where there are two ways, the one that gives the same bytes again. What has
  // no such way runs, with a warning of LibTorch's.
  context.setDeterministicAlgorithms(true, /*warn_only=*/true);
  // Packages write what they read, and filling costs a kernel for each tensor.
  context.setDeterministicFillUninitializedMemory(false);
  context.setBenchmarkCuDNN(false);
  context.setDeterministicCuDNN(true);
  context.setDeterministicMkldnn(true);
  // PyTorch's defaults, and so what diffusers computes with: convolutions of
  // float32 on tensor cores, matrix products not.
  context.setAllowTF32CuDNN(true);
  context.setAllowTF32CuBLAS(false);
  // LibTorch refuses a second call.
  static std::once_flag once;
  std::call_once(once, [] { at::set_num_interop_threads(1); });
}

TorchScope::TorchScope(int intra_op_threads) {
  if (at::get_num_threads() != intra_op_threads) {
    at::set_num_threads(intra_op_threads);
  }
}

}  // namespace ferry
