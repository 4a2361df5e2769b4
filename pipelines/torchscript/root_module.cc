#include "pipelines/torchscript/root_module.h"

#include <c10/core/GradMode.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/serialization/import.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "offload/module_discovery.h"
#include "offload/module_tree.h"
#include "offload/torch_status.h"
#include "pipelines/torchscript/attach_weights.h"
#include "pipelines/torchscript/hook_points.h"
#include "pipelines/torchscript/method_signatures.h"
#include "pipelines/torchscript/module_tree_reader.h"
#include "pipelines/torchscript/parameters.h"
#include "pipelines/torchscript/seed_generators.h"
#include "pipelines/torchscript/torchscript_module.h"
#include "platform/base/check.h"
#include "platform/base/status_macros.h"

namespace ferry {
namespace {

using TensorDict = c10::Dict<std::string, at::Tensor>;

// A status that names the file, with what was attached to it.
absl::Status in_file(const std::string& file, const absl::Status& status) {
  if (status.ok()) return status;
  absl::Status named(status.code(), absl::StrCat(file, ": ", status.message()));
  status.ForEachPayload([&](absl::string_view type, const absl::Cord& payload) {
    named.SetPayload(type, payload);
  });
  return named;
}

absl::StatusOr<torch::jit::Module> read_archive(
    const std::filesystem::path& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) {
    return absl::NotFoundError("does not exist or is no regular file");
  }
  torch::jit::Module module;
  const absl::Status status = call_torch("is no readable archive", [&] {
    module = torch::jit::load(path.string(), c10::Device(c10::kCPU));
    module.eval();
  });
  if (status.ok()) return module;
  if (absl::IsResourceExhausted(status)) return status;
  // What the file holds is wrong, not this program.
  return absl::InvalidArgumentError(status.message());
}

// A tensor of a module or of one below it; undefined when there is none.
at::Tensor first_tensor(const TorchscriptTree& tree, size_t module) {
  for (const size_t index : tree.tree.subtree(module)) {
    for (const ModuleTensor& entry : tree.tree.nodes[index].tensors) {
      return tree.tensors.at(entry.identity);
    }
  }
  return {};
}

}  // namespace

// The modules, behind an interface without TorchScript's headers.
class RootModule::Impl {
 public:
  explicit Impl(torch::jit::Module root) : root_(std::move(root)) {}

  absl::Status prepare(const Options& options) {
    std::vector<TokenizerInputs> tokenizers;
    for (bool mask : options.attention_masks) tokenizers.push_back({mask});
    // Both, so that one load tells of everything.
    const absl::Status methods = check_method_signatures(root_, tokenizers);
    const absl::Status parameters = check_parameters(root_);
    if (!methods.ok() && !parameters.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat(methods.message(), "; ", parameters.message()));
    }
    RETURN_IF_ERROR(methods);
    RETURN_IF_ERROR(parameters);
    RETURN_IF_ERROR(check_no_hook_points(root_));
    RETURN_IF_ERROR(call_torch("compute_dtype", [&] {
      convert_parameters(root_, options.compute_dtype);
    }));
    ASSIGN_OR_RETURN(TorchscriptTree tree, read_module_tree(root_));
    ASSIGN_OR_RETURN(const Discovery discovery, discover(tree.tree));
    warnings_ = discovery.warnings;
    FERRY_CHECK(!discovery.components.empty());
    const size_t first_dit = discovery.components.front().component.module;
    compute_dtype_ =
        options.compute_dtype.value_or(floating_dtype(tree.modules[first_dit]));
    weight_ = first_tensor(tree, first_dit);
    ASSIGN_OR_RETURN(module_,
                     TorchscriptModule::create(std::move(tree), discovery));
    return absl::OkStatus();
  }

  absl::Status begin_generation(int64_t seed) {
    return call_torch("the package's state", [&] {
      seed_generators(seed, device());
      return module_->reset_state();
    });
  }

  // Runs a method; after an error the hooks are as between passes.
  absl::StatusOr<c10::IValue> call(const std::string& method,
                                   std::vector<c10::IValue> arguments) {
    c10::IValue result;
    const absl::Status status = call_torch(method, [&] {
      module_->keep_state();
      // What one method leaves switched on is not the next one's.
      const c10::AutoGradMode no_grad(false);
      result = root_.get_method(method)(std::move(arguments));
    });
    if (status.ok()) return result;
    module_->reset_hooks();
    return status;
  }

  c10::Device device() const {
    return weight_.defined() ? weight_.device() : c10::Device(c10::kCPU);
  }

  TorchscriptModule& module() { return *module_; }
  c10::ScalarType compute_dtype() const { return compute_dtype_; }
  const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  // Constant after prepare().
  torch::jit::Module root_;
  std::unique_ptr<TorchscriptModule> module_;
  c10::ScalarType compute_dtype_ = c10::kFloat;
  // One of the first DiT's; it moves when the weights are placed.
  at::Tensor weight_;
  std::vector<std::string> warnings_;
};

absl::StatusOr<std::unique_ptr<RootModule>> RootModule::load(
    const std::filesystem::path& package, const std::string& file,
    const Options& options) {
  auto root = read_archive(package / file);
  if (!root.ok()) return in_file(file, root.status());
  // Its errors name the files themselves.
  RETURN_IF_ERROR(call_torch("weights", [&] {
    return attach_weights(package, options.weights, options.compute_dtype, file,
                          *root);
  }));
  auto impl = std::make_unique<Impl>(*std::move(root));
  // LibTorch throws where an archive's objects are not what they say.
  const absl::Status status =
      call_torch("cannot be prepared", [&] { return impl->prepare(options); });
  if (!status.ok()) return in_file(file, status);
  return std::unique_ptr<RootModule>(new RootModule(std::move(impl)));
}

RootModule::RootModule(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
RootModule::~RootModule() = default;

absl::StatusOr<Conditioning> RootModule::encode_prompt(
    const std::vector<at::Tensor>& inputs) {
  std::vector<c10::IValue> arguments;
  for (const at::Tensor& input : inputs) {
    arguments.emplace_back(input.to(device()));
  }
  ASSIGN_OR_RETURN(const c10::IValue result,
                   impl_->call("encode_prompt", std::move(arguments)));
  Conditioning conditioning;
  for (const auto& entry : result.toGenericDict()) {
    conditioning[entry.key().toStringRef()] = entry.value().toTensor();
  }
  return conditioning;
}

absl::StatusOr<at::Tensor> RootModule::denoise(
    const at::Tensor& latents, const at::Tensor& timestep,
    const Conditioning& conditioning) {
  TensorDict dict;
  for (const auto& [key, tensor] : conditioning) {
    dict.insert(key, tensor.to(device()));
  }
  ASSIGN_OR_RETURN(const c10::IValue result,
                   impl_->call("denoise", {latents.to(device()),
                                           timestep.to(device()), dict}));
  return result.toTensor();
}

absl::StatusOr<at::Tensor> RootModule::decode(const at::Tensor& latents) {
  ASSIGN_OR_RETURN(const c10::IValue result,
                   impl_->call("decode", {latents.to(device())}));
  return result.toTensor();
}

absl::StatusOr<std::vector<int64_t>> RootModule::latent_shape(int64_t batch,
                                                              int64_t height,
                                                              int64_t width,
                                                              int64_t frames) {
  ASSIGN_OR_RETURN(const c10::IValue result,
                   impl_->call("latent_shape", {batch, height, width, frames}));
  return result.toIntVector();
}

absl::Status RootModule::begin_generation(int64_t seed) {
  return impl_->begin_generation(seed);
}

c10::Device RootModule::device() const { return impl_->device(); }

c10::ScalarType RootModule::compute_dtype() const {
  return impl_->compute_dtype();
}

OffloadableModule& RootModule::offloadable_module() { return impl_->module(); }

const std::vector<std::string>& RootModule::warnings() const {
  return impl_->warnings();
}

}  // namespace ferry
