#include "pipelines/torchscript/module_state.h"

#include <ATen/core/ivalue.h>

#include <set>
#include <utility>

#include "absl/strings/str_cat.h"

namespace ferry {
namespace {

std::string join_path(const std::string& path, const std::string& name) {
  return path.empty() ? name : absl::StrCat(path, ".", name);
}

// Does the work of collect_state().
class Collector {
 public:
  void walk(const c10::IValue& value, const std::string& path) {
    if (value.isTensor()) {
      const at::Tensor& tensor = value.toTensor();
      if (tensor.defined() &&
          tensors_.insert(tensor.unsafeGetTensorImpl()).second) {
        state_.tensors.push_back({path, tensor});
      }
    } else if (value.isCustomClass()) {
      state_.opaque.push_back(path);
    } else if (value.isObject()) {
      walk_object(value, path);
    } else if (value.isList()) {
      size_t index = 0;
      for (const c10::IValue& item : value.toListRef()) {
        walk(item, join_path(path, absl::StrCat(index++)));
      }
    } else if (value.isTuple()) {
      size_t index = 0;
      for (const c10::IValue& item : value.toTupleRef().elements()) {
        walk(item, join_path(path, absl::StrCat(index++)));
      }
    } else if (value.isGenericDict()) {
      walk_dict(value, path);
    }
  }

  ModuleState take() { return std::move(state_); }

 private:
  void walk_object(const c10::IValue& value, const std::string& path) {
    const auto object = value.toObject();
    if (!objects_.insert(object.get()).second) return;
    const auto type = object->type();
    for (size_t slot = 0; slot < type->numAttributes(); ++slot) {
      walk(object->getSlot(slot),
           join_path(path, type->getAttributeName(slot)));
    }
  }

  void walk_dict(const c10::IValue& value, const std::string& path) {
    size_t index = 0;
    for (const auto& entry : value.toGenericDict()) {
      const std::string name = entry.key().isString()
                                   ? entry.key().toStringRef()
                                   : absl::StrCat(index);
      walk(entry.key(), join_path(path, absl::StrCat(name, ".key")));
      walk(entry.value(), join_path(path, name));
      ++index;
    }
  }

  std::set<const void*> objects_;
  std::set<const void*> tensors_;
  ModuleState state_;
};

}  // namespace

ModuleState collect_state(const c10::IValue& value, const std::string& path) {
  Collector collector;
  collector.walk(value, path);
  return collector.take();
}

std::vector<at::Tensor> tensors_of(const c10::IValue& value) {
  std::vector<at::Tensor> tensors;
  for (NamedTensor& item : collect_state(value, "").tensors) {
    tensors.push_back(std::move(item.tensor));
  }
  return tensors;
}

}  // namespace ferry
