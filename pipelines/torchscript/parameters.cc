#include "pipelines/torchscript/parameters.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/as_strided.h>
#include <ATen/ops/empty.h>
#include <torch/csrc/jit/ir/ir.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "offload/tensor_group.h"
#include "pipelines/torchscript/module_state.h"

namespace ferry {
namespace {

// Why the loader cannot take a tensor; empty when it can.
std::string defect(const at::Tensor& tensor) {
  if (!tensor.defined()) return "";
  if (tensor.is_quantized()) return "is quantized";
  if (tensor.is_nested()) return "is a nested tensor";
  if (tensor.is_meta()) return "is on the meta device and has no values";
  if (tensor.layout() != c10::kStrided || !tensor.has_storage()) {
    return "is not a dense tensor";
  }
  return "";
}

// Adds the tensors that a graph holds.
void add_constants(const torch::jit::Block& block, const std::string& name,
                   std::vector<NamedTensor>* tensors) {
  namespace attr = torch::jit::attr;
  using torch::jit::AttributeKind;
  for (const torch::jit::Node* node : block.nodes()) {
    for (const torch::jit::Block* inner : node->blocks()) {
      add_constants(*inner, name, tensors);
    }
    if (node->kind() != torch::jit::prim::Constant ||
        !node->hasAttribute(attr::value)) {
      continue;
    }
    const AttributeKind kind = node->kindOf(attr::value);
    if (kind == AttributeKind::t) {
      tensors->push_back({name, node->t(attr::value)});
    } else if (kind == AttributeKind::ts) {
      for (const at::Tensor& tensor : node->ts(attr::value)) {
        tensors->push_back({name, tensor});
      }
    }
  }
}

// Elements of a whole storage, in another type.
class StorageConverter {
 public:
  explicit StorageConverter(c10::ScalarType dtype) : dtype_(dtype) {}

  at::Tensor convert(const at::Tensor& tensor) {
    const c10::Storage& storage = tensor.storage();
    const Key key{storage.unsafeGetStorageImpl(), tensor.scalar_type()};
    auto [converted, is_new] = converted_.try_emplace(key);
    if (is_new) {
      const auto elements =
          static_cast<int64_t>(storage.nbytes() / tensor.element_size());
      const at::Tensor whole =
          at::empty({0}, tensor.options()).set_(storage, 0, {elements}, {1});
      converted->second = whole.to(dtype_);
    }
    return at::as_strided(converted->second, tensor.sizes(), tensor.strides(),
                          tensor.storage_offset());
  }

 private:
  using Key = std::pair<const void*, c10::ScalarType>;

  const c10::ScalarType dtype_;
  std::map<Key, at::Tensor> converted_;
};

}  // namespace

absl::Status check_parameters(const torch::jit::Module& root) {
  std::vector<std::string> defects;
  std::set<std::string> checked;
  const auto check = [&](const std::string& name, const at::Tensor& tensor) {
    if (!checked.insert(name).second) return;
    if (const std::string text = defect(tensor); !text.empty()) {
      defects.push_back(absl::StrCat(name, " ", text));
    }
  };
  for (const auto& item : root.named_parameters()) check(item.name, item.value);
  for (const auto& item : root.named_buffers()) check(item.name, item.value);
  // Whatever else there is needs values too.
  std::vector<NamedTensor> others = collect_state(root._ivalue(), "").tensors;
  for (const auto& item : root.named_modules()) {
    for (const torch::jit::Method& method : item.value.get_methods()) {
      add_constants(*method.graph()->block(),
                    absl::StrCat("a constant of ", item.name,
                                 item.name.empty() ? "" : ".", method.name()),
                    &others);
    }
  }
  for (const NamedTensor& item : others) {
    if (item.tensor.is_meta()) check(item.path, item.tensor);
  }
  if (defects.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrJoin(defects, "; "));
}

void convert_parameters(const torch::jit::Module& root,
                        std::optional<c10::ScalarType> dtype) {
  std::optional<StorageConverter> converter;
  if (dtype) converter.emplace(*dtype);
  for (const torch::jit::Module& module : root.modules()) {
    const auto type = module.type();
    for (size_t slot = 0; slot < type->numAttributes(); ++slot) {
      if (!type->is_parameter(slot)) continue;
      const c10::IValue value = module._ivalue()->getSlot(slot);
      if (!value.isTensor() || !value.toTensor().defined()) continue;
      const at::Tensor& parameter = value.toTensor();
      parameter.set_requires_grad(false);
      if (!dtype || !parameter.is_floating_point() ||
          parameter.scalar_type() == *dtype) {
        continue;
      }
      module._ivalue()->setSlot(slot, converter->convert(parameter));
    }
  }
}

c10::ScalarType floating_dtype(const torch::jit::Module& module) {
  for (const at::Tensor& parameter : module.parameters()) {
    if (parameter.is_floating_point()) return parameter.scalar_type();
  }
  return c10::kFloat;
}

}  // namespace ferry
