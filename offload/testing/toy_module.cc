#include "offload/testing/toy_module.h"

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/linspace.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/tanh.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "offload/torch_status.h"
#include "platform/base/clock.h"
#include "platform/base/status_macros.h"
#include "platform/base/testing/wait_until.h"

namespace ferry {
namespace {

// Different for every tensor of a pipeline.
at::Tensor make_values(at::IntArrayRef shape, size_t number) {
  const double start = 0.1 + 0.07 * static_cast<double>(number % 11);
  // Small enough that tanh does not saturate.
  return (at::linspace(-start, 1.0 - start, kToyWidth * kToyWidth) * 0.25)
      .narrow(0, 0, c10::multiply_integers(shape))
      .reshape(shape)
      .clone();
}

}  // namespace

bool TensorListOutput::any_tensor(
    absl::FunctionRef<bool(const at::Tensor&)> predicate) const {
  for (const at::Tensor& tensor : tensors_) {
    if (predicate(tensor)) return true;
  }
  return false;
}

void TensorListOutput::replace_tensors(
    absl::FunctionRef<at::Tensor(const at::Tensor&)> function) {
  for (at::Tensor& tensor : tensors_) tensor = function(tensor);
}

ToyModule::ToyModule(const ToyOptions& options) : options_(options) {
  // Threads that wait for each other take most of the time of small operators.
  at::set_num_threads(1);
  tree_.nodes.emplace_back();
  tree_.declarations.emplace();
  tree_.plan.emplace();
  for (int i = 0; i < options.dits; ++i) {
    const std::string name = absl::StrCat("dit_", i);
    tree_.declarations->dit_modules.push_back(name);
    tree_.plan->block_attrs[name] = {"blocks"};
    tree_.plan->resident_dit_paths.insert(name);
    add_component(name, ComponentRole::kDit, options.blocks);
  }
  for (int i = 0; i < options.encoders; ++i) {
    const std::string name = absl::StrCat("text_encoder_", i);
    tree_.declarations->encoder_modules.push_back(name);
    tree_.plan->encoder_block_attrs[name] = {"blocks"};
    tree_.plan->encoder_dlo_weight_replication.insert(name);
    add_component(name, ComponentRole::kTextEncoder, options.blocks);
  }
  for (int i = 0; i < options.vaes; ++i) {
    const std::string name = absl::StrCat("vae_", i);
    tree_.declarations->vae_modules.push_back(name);
    add_component(name, ComponentRole::kVae, 0);
  }
  add_tensor(size_t{0}, "shift", make_values({kToyWidth}, 5));
  if (!options.shares) return;
  const at::Tensor shared = make_values({kToyWidth}, 3);
  for (size_t c = 0; c < std::min<size_t>(2, components_.size()); ++c) {
    add_tensor(components_[c].module, "common", shared);
  }
  for (const OffloadableComponent& component : components_) {
    if (component.stacks.empty()) continue;
    const auto& blocks = component.stacks[0].blocks;
    if (blocks.size() < 2) continue;
    // Another object on the same storage.
    add_tensor(blocks[1].module, "tied",
               read(blocks[0].module, 1).narrow(0, 1, 3));
  }
}

size_t ToyModule::add_module(size_t parent, const std::string& name) {
  const size_t index = tree_.nodes.size();
  tree_.nodes.emplace_back();
  tree_.nodes[parent].children.emplace_back(name, index);
  return index;
}

HookRegistry* ToyModule::add_registry(size_t module, const std::string& path) {
  auto& registry = registries_[module];
  registry = std::make_unique<HookRegistry>(path);
  return registry.get();
}

WrittenState& ToyModule::written_state() const {
  if (written_ == nullptr) {
    written_ = std::make_unique<WrittenState>(
        written_tensors(tree_, [this](int64_t identity) -> const at::Tensor& {
          return tensor(identity);
        }));
  }
  return *written_;
}

HookRegistry* ToyModule::hooks(size_t module) {
  const auto registry = registries_.find(module);
  return registry == registries_.end() ? nullptr : registry->second.get();
}

void ToyModule::add_tensor(const std::string& path, const std::string& name,
                           const at::Tensor& tensor, const std::string& reason,
                           bool is_written) {
  add_tensor(tree_.find(0, path).module, name, tensor, reason, is_written);
}

void ToyModule::add_tensor(size_t module, const std::string& name,
                           const at::Tensor& tensor, const std::string& reason,
                           bool is_written) {
  written_.reset();
  ModuleTensor entry;
  entry.name = name;
  entry.resident_reason = reason;
  entry.is_written = is_written;
  const auto is_same = [&](const at::Tensor& other) {
    return other.unsafeGetTensorImpl() == tensor.unsafeGetTensorImpl();
  };
  const auto known = std::find_if(tensors_.begin(), tensors_.end(), is_same);
  entry.identity = known - tensors_.begin();
  if (known == tensors_.end()) tensors_.push_back(tensor);
  if (tensor.has_storage() && tensor.numel() > 0 && !tensor.is_meta()) {
    const auto shares = [&](const at::Tensor& other) {
      return other.has_storage() &&
             other.storage().is_alias_of(tensor.storage());
    };
    // The first tensor on a storage numbers it.
    entry.storage = std::find_if(tensors_.begin(), tensors_.end(), shares) -
                    tensors_.begin();
    entry.storage_bytes = static_cast<int64_t>(tensor.storage().nbytes());
    entry.bytes = static_cast<int64_t>(tensor.nbytes());
  }
  tree_.nodes[module].tensors.push_back(std::move(entry));
}

// Tensors: weight, bias, scale.
std::vector<OffloadableBlock> ToyModule::add_blocks(size_t module,
                                                    const std::string& path,
                                                    const std::string& list,
                                                    int count) {
  const size_t container = add_module(module, list);
  tree_.nodes[container].is_list = true;
  std::vector<OffloadableBlock> blocks;
  for (int b = 0; b < count; ++b) {
    OffloadableBlock block;
    block.path = absl::StrCat(path, ".", list, ".", b);
    block.module = add_module(container, absl::StrCat(b));
    block.hooks = add_registry(block.module, block.path);
    add_tensor(block.module, "weight",
               make_values({kToyWidth, kToyWidth}, tensors_.size()));
    add_tensor(block.module, "bias", make_values({kToyWidth}, tensors_.size()));
    add_tensor(block.module, "scale", at::scalar_tensor(0.9 + 0.01 * b));
    blocks.push_back(std::move(block));
  }
  return blocks;
}

// Tensors: projection, counter.
void ToyModule::add_component(const std::string& name, ComponentRole role,
                              int blocks) {
  OffloadableComponent component;
  component.path = name;
  component.role = role;
  component.module = add_module(0, name);
  component.hooks = add_registry(component.module, name);
  add_tensor(component.module, "projection",
             make_values({kToyWidth, kToyWidth}, tensors_.size()));
  add_tensor(component.module, "counter", at::zeros({1}),
             options_.counts ? "is written by run" : "", options_.counts);
  if (blocks > 0) {
    component.stacks.push_back(
        {add_blocks(component.module, name, "blocks", blocks)});
  }
  if (role == ComponentRole::kDit && options_.child_blocks > 0) {
    const size_t child = add_module(component.module, "context");
    tree_.plan->offload_submodules["context"] = "layers";
    child_blocks_[component.module] = add_blocks(
        child, absl::StrCat(name, ".context"), "layers", options_.child_blocks);
  }
  components_.push_back(std::move(component));
}

void ToyModule::reset_hooks() {
  for (const auto& [module, registry] : registries_) registry->reset_state();
}

absl::StatusOr<at::Tensor> ToyModule::run(size_t component, const at::Tensor& x,
                                          const std::vector<size_t>& order) {
  auto result = call_torch(components_[component].path, [&] {
    return run_hooked(components_[component], x, order);
  });
  if (!result.ok()) reset_hooks();
  return result;
}

absl::StatusOr<at::Tensor> ToyModule::run(size_t component,
                                          const at::Tensor& x) {
  const auto& stacks = components_[component].stacks;
  std::vector<size_t> order(stacks.empty() ? 0 : stacks[0].blocks.size());
  std::iota(order.begin(), order.end(), size_t{0});
  return run(component, x, order);
}

absl::Status ToyModule::abandon(size_t component, size_t block) {
  const OffloadableComponent& entered = components_[component];
  absl::Status status = entered.hooks->pre_forward();
  if (status.ok()) {
    status = entered.stacks[0].blocks[block].hooks->pre_forward();
  }
  reset_hooks();
  return status;
}

absl::StatusOr<at::Tensor> ToyModule::run_block(
    const OffloadableBlock& block, const at::Tensor& x,
    std::vector<at::Tensor>* views) {
  RETURN_IF_ERROR(block.hooks->pre_forward());
  // As a device does: without the host's cores.
  wait_until(Clock::real().monotonic() + block_time_);
  const at::Tensor bias = read(block.module, 1);
  const at::Tensor y = at::tanh(at::matmul(x, read(block.module, 0)) + bias) *
                       read(block.module, 2);
  TensorListOutput output({y, bias.narrow(0, 2, 4)});
  RETURN_IF_ERROR(block.hooks->post_forward(output));
  views->push_back(output.at(1));
  return output.at(0);
}

absl::StatusOr<at::Tensor> ToyModule::run_hooked(
    const OffloadableComponent& component, at::Tensor x,
    const std::vector<size_t>& order) {
  written_state().keep();
  RETURN_IF_ERROR(component.hooks->pre_forward());
  x = at::tanh(at::matmul(x, read(component.module, 0)));
  std::vector<at::Tensor> views;
  for (const OffloadableBlock& block : child_blocks_[component.module]) {
    ASSIGN_OR_RETURN(x, run_block(block, x, &views));
  }
  for (const size_t index : order) {
    ASSIGN_OR_RETURN(x,
                     run_block(component.stacks[0].blocks[index], x, &views));
  }
  if (options_.returns_views) {
    for (const at::Tensor& view : views) x = x + view.sum();
  }
  const at::Tensor& counter = read(component.module, 1);
  if (options_.counts) counter.add_(1);
  x = x + counter * 0.01 + read(0, 0);
  TensorListOutput output({x});
  RETURN_IF_ERROR(component.hooks->post_forward(output));
  return output.at(0);
}

std::vector<std::string> ToyModule::hook_names() const {
  std::vector<std::string> names;
  for (const auto& [module, registry] : registries_) {
    for (const std::string& name : registry->names()) names.push_back(name);
  }
  return names;
}

}  // namespace ferry
