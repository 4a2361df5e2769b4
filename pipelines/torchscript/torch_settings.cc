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
  at::globalContext().setBenchmarkCuDNN(false);
  at::globalContext().setDeterministicCuDNN(true);
  at::globalContext().setDeterministicMkldnn(true);
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
