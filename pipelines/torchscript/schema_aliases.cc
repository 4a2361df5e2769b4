#include "pipelines/torchscript/schema_aliases.h"

#include <algorithm>
#include <set>
#include <string>

namespace ferry {
namespace {

// The sets of an annotation, and of what is in it.
void add_sets(const c10::AliasInfo& info, std::set<c10::Symbol>* sets) {
  sets->insert(info.beforeSets().begin(), info.beforeSets().end());
  sets->insert(info.afterSets().begin(), info.afterSets().end());
  for (const c10::AliasInfo& inner : info.containedTypes()) {
    add_sets(inner, sets);
  }
}

std::set<c10::Symbol> sets_of(const c10::Argument& argument) {
  std::set<c10::Symbol> sets;
  if (argument.alias_info() != nullptr) add_sets(*argument.alias_info(), &sets);
  return sets;
}

// Return an argument, or a view of one, at least sometimes.
const std::set<std::string>& silent_views() {
  static const auto* const kNames =
      new std::set<std::string>{"aten::alpha_dropout",
                                "aten::atleast_1d",
                                "aten::atleast_2d",
                                "aten::atleast_3d",
                                "aten::broadcast_tensors",
                                "aten::conj_physical",
                                "aten::dropout",
                                "aten::feature_alpha_dropout",
                                "aten::feature_dropout",
                                "aten::meshgrid",
                                "aten::pad",
                                "aten::type_as",
                                "aten::unsafe_chunk",
                                "aten::unsafe_split",
                                "aten::unsafe_split_with_sizes"};
  return *kNames;
}

bool is_container(const c10::Argument& argument) {
  const auto kind = argument.type()->kind();
  return kind == c10::TypeKind::ListType || kind == c10::TypeKind::DictType;
}

}  // namespace

bool SchemaAliases::writes(size_t argument) const {
  if (argument >= schema_.arguments().size()) return false;
  const c10::Argument& formal = schema_.arguments()[argument];
  const c10::AliasInfo* const info = formal.alias_info();
  if (info == nullptr || !info->isWrite()) return false;
  // Elements are annotated where they are written.
  return !is_container(formal) || !info->containedTypes().empty();
}

bool SchemaAliases::fills_a_container() const {
  return std::any_of(schema_.arguments().begin(), schema_.arguments().end(),
                     [](const c10::Argument& formal) {
                       const c10::AliasInfo* const info = formal.alias_info();
                       return info != nullptr && info->isWrite() &&
                              is_container(formal) &&
                              info->containedTypes().empty();
                     });
}

bool SchemaAliases::may_return(size_t argument, size_t result) const {
  if (silent_views().count(schema_.name()) > 0) return true;
  if (argument >= schema_.arguments().size() ||
      result >= schema_.returns().size()) {
    return true;
  }
  const std::set<c10::Symbol> results = sets_of(schema_.returns()[result]);
  if (results.count(c10::AliasInfo::wildcardSet()) > 0) return true;
  const std::set<c10::Symbol> arguments =
      sets_of(schema_.arguments()[argument]);
  return std::any_of(arguments.begin(), arguments.end(),
                     [&](c10::Symbol set) { return results.count(set) > 0; });
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

}  // namespace ferry
