#include "tests/offload/stream_pipeline.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/randn.h>
#include <torch/csrc/jit/api/module.h>

#include <cstdint>
#include <string>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "offload/module_discovery.h"
#include "offload/torch_status.h"
#include "pipelines/torchscript/module_tree_reader.h"
#include "platform/base/status_macros.h"
#include "tests/offload/stream_model.h"

namespace ferry {

StreamPipeline::StreamPipeline(const StreamCase& wanted,
                               torch::jit::Module root)
    : case_(wanted), root_(std::move(root)) {
  for (const auto& item : root_.named_modules()) {
    if (item.value.hasattr("memory")) blocks_.push_back(item.value);
  }
}

absl::StatusOr<std::unique_ptr<StreamPipeline>> StreamPipeline::create(
    const StreamCase& wanted) {
  torch::jit::Module root;
  RETURN_IF_ERROR(
      call_torch("model", [&] { root = make_stream_model(wanted); }));
  auto pipeline = absl::WrapUnique(new StreamPipeline(wanted, root));
  ASSIGN_OR_RETURN(TorchscriptTree tree, read_module_tree(root));
  ASSIGN_OR_RETURN(const Discovery discovery, discover(tree.tree));
  ASSIGN_OR_RETURN(pipeline->module_,
                   TorchscriptModule::create(std::move(tree), discovery));
  return pipeline;
}

absl::StatusOr<std::vector<at::Tensor>> StreamPipeline::generate(
    uint64_t input) {
  RETURN_IF_ERROR(module_->reset_state());
  at::Generator generator = at::detail::createCPUGenerator(input);
  const at::Tensor first =
      at::randn({2, kStreamWidth}, generator, at::TensorOptions(at::kFloat));
  std::vector<at::Tensor> outputs;
  for (const double level : {1000.0, 600.0, 200.0}) {
    for (const double guidance : {1.0, -0.5}) {
      const at::Tensor latents = first * guidance;
      if (case_.order == StreamCase::Order::kFailing && level == 600.0) {
        const auto failed = denoise(latents, level, true);
        if (failed.ok() ||
            !absl::StrContains(failed.status().message(), "told to")) {
          return absl::UnknownError(failed.status().ToString());
        }
      }
      ASSIGN_OR_RETURN(at::Tensor output, denoise(latents, level, false));
      outputs.push_back(std::move(output));
    }
  }
  return outputs;
}

absl::StatusOr<at::Tensor> StreamPipeline::denoise(const at::Tensor& latents,
                                                   double level, bool fail) {
  at::Tensor output;
  const absl::Status status = call_torch("denoise", [&] {
    output =
        root_.get_method("denoise")({latents, level, fail}).toTensor().clone();
  });
  if (status.ok()) return output;
  module_->reset_hooks();
  return status;
}

void StreamPipeline::flip_byte(const std::string& block) {
  torch::jit::Module module = root_;
  for (const absl::string_view name : absl::StrSplit(block, '.')) {
    module = module.attr(std::string(name)).toModule();
  }
  // The byte of a float that has its last bit of exponent.
  const at::Tensor bias = module.attr("bias").toTensor();
  static_cast<uint8_t*>(bias.data_ptr())[2] ^= 0xff;
}

std::vector<at::Tensor> StreamPipeline::written_state() const {
  std::vector<at::Tensor> state;
  for (const torch::jit::Module& block : blocks_) {
    state.push_back(block.attr("memory").toTensor().clone());
  }
  return state;
}

}  // namespace ferry
