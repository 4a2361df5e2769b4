#include "pipelines/torchscript/known_value.h"

#include <ATen/core/Tensor.h>

#include <algorithm>

#include "pipelines/torchscript/module_state.h"

namespace ferry {
namespace {

bool is_same(const c10::IValue& a, const c10::IValue& b) {
  if (a.isObject() && b.isObject()) return a.toObject() == b.toObject();
  return a.isBool() && b.isBool() && a.toBool() == b.toBool();
}

}  // namespace

std::optional<bool> KnownValue::as_bool() const {
  if (!exact.isBool()) return std::nullopt;
  return exact.toBool();
}

Storages KnownValue::contents() const {
  Storages all = storages_of(exact);
  all.insert(storages.begin(), storages.end());
  return all;
}

bool KnownValue::merge(const KnownValue& other) {
  const size_t size = storages.size();
  if (is_same(exact, other.exact)) {
    storages.insert(other.storages.begin(), other.storages.end());
    return storages.size() != size;
  }
  const bool was_exact = !exact.isNone();
  for (const Storages& reached : {contents(), other.contents()}) {
    storages.insert(reached.begin(), reached.end());
  }
  exact = c10::IValue();
  return was_exact || storages.size() != size;
}

Storages storages_of(const c10::IValue& value) {
  Storages storages;
  for (const at::Tensor& tensor : tensors_of(value)) {
    if (tensor.has_storage()) {
      storages.insert(tensor.storage().unsafeGetStorageImpl());
    }
  }
  return storages;
}

bool may_hold_tensors(const c10::Type& type) {
  switch (type.kind()) {
    case c10::TypeKind::IntType:
    case c10::TypeKind::FloatType:
    case c10::TypeKind::ComplexType:
    case c10::TypeKind::NumberType:
    case c10::TypeKind::BoolType:
    case c10::TypeKind::StringType:
    case c10::TypeKind::NoneType:
    case c10::TypeKind::DeviceObjType:
    case c10::TypeKind::GeneratorType:
    case c10::TypeKind::FunctionType:
      return false;
    case c10::TypeKind::ListType:
    case c10::TypeKind::OptionalType:
      return may_hold_tensors(*type.containedType(0));
    default:
      return true;
  }
}

bool may_hold_objects(const c10::Type& type) {
  switch (type.kind()) {
    case c10::TypeKind::ClassType:
    case c10::TypeKind::InterfaceType:
    case c10::TypeKind::AnyType:
    case c10::TypeKind::AnyClassType:
      return true;
    default:
      break;
  }
  const auto inner = type.containedTypes();
  return std::any_of(inner.begin(), inner.end(), [](const c10::TypePtr& item) {
    return may_hold_objects(*item);
  });
}

}  // namespace ferry
