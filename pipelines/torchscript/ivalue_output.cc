#include "pipelines/torchscript/ivalue_output.h"

#include <utility>
#include <vector>

namespace ferry {
namespace {

using Replacement = absl::FunctionRef<at::Tensor(const at::Tensor&)>;

c10::IValue replaced(const c10::IValue& value, Replacement function);

c10::IValue replaced_tuple(const c10::IValue& value, Replacement function) {
  std::vector<c10::IValue> elements;
  for (const c10::IValue& element : value.toTupleRef().elements()) {
    elements.push_back(replaced(element, function));
  }
  return c10::ivalue::Tuple::createNamed(std::move(elements),
                                         value.type()->cast<c10::TupleType>());
}

c10::IValue replaced_list(const c10::IValue& value, Replacement function) {
  c10::impl::GenericList list(value.toList().elementType());
  for (const c10::IValue& element : value.toListRef()) {
    list.push_back(replaced(element, function));
  }
  return list;
}

c10::IValue replaced_dict(const c10::IValue& value, Replacement function) {
  const c10::impl::GenericDict old = value.toGenericDict();
  c10::impl::GenericDict dict(old.keyType(), old.valueType());
  for (const auto& entry : old) {
    dict.insert(entry.key(), replaced(entry.value(), function));
  }
  return dict;
}

// The object is the method's own; its attributes can be set.
void replace_in_object(const c10::IValue& value, Replacement function) {
  c10::ivalue::Object& object = value.toObjectRef();
  for (size_t slot = 0; slot < object.slots().size(); ++slot) {
    object.setSlot(slot, replaced(object.getSlot(slot), function));
  }
}

c10::IValue replaced(const c10::IValue& value, Replacement function) {
  if (value.isTensor()) {
    return value.toTensor().defined() ? function(value.toTensor()) : value;
  }
  if (value.isTuple()) return replaced_tuple(value, function);
  if (value.isList()) return replaced_list(value, function);
  if (value.isGenericDict()) return replaced_dict(value, function);
  if (value.isObject() && !value.isModule()) replace_in_object(value, function);
  return value;
}

}  // namespace

bool IValueOutput::any_tensor(
    absl::FunctionRef<bool(const at::Tensor&)> predicate) const {
  bool found = false;
  value_->visit([&](const c10::IValue& value) {
    if (value.isTensor() && value.toTensor().defined()) {
      found = found || predicate(value.toTensor());
    }
    return found || value.isModule();
  });
  return found;
}

void IValueOutput::replace_tensors(
    absl::FunctionRef<at::Tensor(const at::Tensor&)> function) {
  *value_ = replaced(*value_, function);
}

}  // namespace ferry
