#include "pipelines/torchscript/attribute_snapshot.h"

#include <torch/csrc/jit/api/compilation_unit.h>
#include <torch/csrc/jit/api/function_impl.h>
#include <torch/csrc/jit/ir/ir.h>

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>

#include "absl/base/casts.h"
#include "offload/tensor_group.h"

namespace ferry {
namespace {

using torch::jit::AttributeKind;
using torch::jit::Block;
using torch::jit::CompilationUnit;
using torch::jit::Node;

// Whether an attribute holds what it held.
bool is_same(const c10::IValue& value, const c10::IValue& saved) {
  if (!saved.isDouble()) return value.isSameIdentity(saved);
  // Equal numbers may have other bits.
  return value.isDouble() && absl::bit_cast<uint64_t>(value.toDouble()) ==
                                 absl::bit_cast<uint64_t>(saved.toDouble());
}

bool is_same(const c10::List<c10::IValue>& list,
             const std::vector<c10::IValue>& items) {
  if (list.size() != items.size()) return false;
  for (size_t i = 0; i < items.size(); ++i) {
    if (!is_same(list.get(i), items[i])) return false;
  }
  return true;
}

using Entries = std::vector<std::pair<c10::IValue, c10::IValue>>;

// Their order counts.
bool is_same(const c10::Dict<c10::IValue, c10::IValue>& dict,
             const Entries& entries) {
  if (dict.size() != entries.size()) return false;
  auto saved = entries.begin();
  for (const auto& entry : dict) {
    if (!is_same(entry.key(), saved->first) ||
        !is_same(entry.value(), saved->second)) {
      return false;
    }
    ++saved;
  }
  return true;
}

bool has_values(const at::Tensor& tensor) {
  return tensor.defined() && tensor.layout() == c10::kStrided &&
         tensor.has_storage() && tensor.is_cpu();
}

}  // namespace

// Does the work of the constructor: breadth first, since objects may be long
// chains, and circles.
class AttributeReader {
 public:
  AttributeReader(absl::FunctionRef<bool(const at::Tensor&)> is_placed,
                  AttributeSnapshot* snapshot)
      : is_placed_(is_placed), snapshot_(*snapshot) {}

  void read(const torch::jit::Module& root) {
    add(root._ivalue());
    for (size_t next = 0; next < pending_.size(); ++next) {
      const c10::IValue value = pending_[next];
      read_value(value);
    }
    snapshot_.tensors_beside_ =
        std::make_unique<WrittenState>(std::move(beside_));
  }

 private:
  // What has been added is read once.
  void add(const c10::IValue& value) {
    if (value.isPtrType() && seen_.insert(value.internalToPointer()).second) {
      pending_.push_back(value);
    }
  }

  void read_value(const c10::IValue& value) {
    if (value.isTensor()) {
      add_tensor(value.toTensor());
    } else if (value.isObject()) {
      read_object(value);
    } else if (value.isList()) {
      const c10::List<c10::IValue> list = value.toList();
      snapshot_.lists_.push_back({list, list.vec()});
      for (const c10::IValue& item : snapshot_.lists_.back().items) add(item);
    } else if (value.isTuple()) {
      for (const c10::IValue& item : value.toTupleRef().elements()) add(item);
    } else if (value.isGenericDict()) {
      Entries entries;
      for (const auto& entry : value.toGenericDict()) {
        entries.emplace_back(entry.key(), entry.value());
        add(entry.key());
        add(entry.value());
      }
      snapshot_.dicts_.push_back({value.toGenericDict(), std::move(entries)});
    }
  }

  void read_object(const c10::IValue& value) {
    const auto object = value.toObject();
    snapshot_.objects_.push_back({object, object->slots()});
    for (const c10::IValue& slot : object->slots()) add(slot);
    if (value.isCustomClass()) return;
    const auto unit = object->compilation_unit();
    if (!units_.insert(unit.get()).second) return;
    for (torch::jit::Function* const function : unit->get_functions()) {
      auto* const code = torch::jit::tryToGraphFunction(*function);
      if (code != nullptr) read_constants(*code->graph()->block());
    }
  }

  void read_constants(const Block& block) {
    for (const Node* node : block.nodes()) {
      for (const Block* inner : node->blocks()) read_constants(*inner);
      if (node->hasAttribute(c10::attr::Subgraph)) {
        read_constants(*node->g(c10::attr::Subgraph)->block());
      }
      if (node->kind() != c10::prim::Constant ||
          !node->hasAttribute(c10::attr::value)) {
        continue;
      }
      switch (node->kindOf(c10::attr::value)) {
        case AttributeKind::t:
          add_constant(node->t(c10::attr::value));
          break;
        case AttributeKind::ts:
          for (const at::Tensor& tensor : node->ts(c10::attr::value)) {
            add_constant(tensor);
          }
          break;
        case AttributeKind::ival:
          add(node->ival(c10::attr::value));
          break;
        default:
          break;
      }
    }
  }

  // Those with dimensions are tensors of their module.
  void add_constant(const at::Tensor& tensor) {
    if (tensor.defined() && tensor.dim() == 0) add(tensor);
  }

  void add_tensor(const at::Tensor& tensor) {
    snapshot_.gradients_.push_back({tensor, tensor.requires_grad()});
    if (has_values(tensor) && !is_placed_(tensor)) {
      beside_.push_back({"", tensor});
    }
  }

  const absl::FunctionRef<bool(const at::Tensor&)> is_placed_;
  AttributeSnapshot& snapshot_;
  std::set<const void*> seen_;
  std::set<const CompilationUnit*> units_;
  std::vector<c10::IValue> pending_;
  std::vector<NamedTensor> beside_;
};

AttributeSnapshot::AttributeSnapshot(
    const torch::jit::Module& root,
    absl::FunctionRef<bool(const at::Tensor&)> is_placed) {
  AttributeReader(is_placed, this).read(root);
}

absl::Status AttributeSnapshot::restore() {
  for (const Object& saved : objects_) {
    for (size_t slot = 0; slot < saved.slots.size(); ++slot) {
      if (is_same(saved.object->getSlot(slot), saved.slots[slot])) continue;
      saved.object->setSlot(slot, saved.slots[slot]);
    }
  }
  for (List& saved : lists_) {
    if (is_same(saved.list, saved.items)) continue;
    saved.list.clear();
    for (const c10::IValue& item : saved.items) saved.list.push_back(item);
  }
  for (Dict& saved : dicts_) {
    if (is_same(saved.dict, saved.entries)) continue;
    saved.dict.clear();
    for (const auto& [key, value] : saved.entries) {
      saved.dict.insert(key, value);
    }
  }
  for (const Gradient& saved : gradients_) {
    c10::TensorImpl& impl = *saved.tensor.unsafeGetTensorImpl();
    if (impl.autograd_meta() == nullptr) continue;
    if (saved.tensor.requires_grad() == saved.is_required &&
        saved.tensor.is_leaf() && !impl.grad().defined()) {
      continue;
    }
    impl.set_autograd_meta(nullptr);
    impl.set_requires_grad(saved.is_required);
  }
  return tensors_beside_->reset();
}

}  // namespace ferry
