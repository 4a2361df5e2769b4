#include "pipelines/torchscript/operator_effects.h"

#include <ATen/core/function_schema.h>
#include <torch/csrc/jit/runtime/operator.h>

#include <algorithm>
#include <set>

#include "absl/strings/match.h"
#include "pipelines/torchscript/operators/operator_facts.h"

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

bool is_container(const c10::Argument& argument) {
  const auto kind = argument.type()->kind();
  return kind == c10::TypeKind::ListType || kind == c10::TypeKind::DictType;
}

bool fills(const c10::Argument& argument) {
  const c10::AliasInfo* const info = argument.alias_info();
  return info != nullptr && info->isWrite() && is_container(argument) &&
         info->containedTypes().empty();
}

// Bit i: argument i.
template <typename Predicate>
uint64_t mask_of(const c10::FunctionSchema& schema, Predicate predicate) {
  uint64_t mask = 0;
  for (size_t i = 0; i < schema.arguments().size(); ++i) {
    if (predicate(schema.arguments()[i])) mask |= uint64_t{1} << i;
  }
  return mask;
}

bool has(uint64_t mask, size_t argument) {
  return argument >= 64 || (mask >> argument & 1) != 0;
}

bool declares_write(const c10::Argument& argument) {
  return argument.alias_info() != nullptr && argument.alias_info()->isWrite();
}

// Without an offset as_strided takes the tensor's own.
bool counts_from_the_storage(const torch::jit::Node& node) {
  const c10::FunctionSchema& schema = node.schema();
  if (schema.name() == "aten::storage_offset") return true;
  if (!absl::StartsWith(schema.name(), "aten::as_strided")) return false;
  const auto offset = schema.argumentIndexWithName("storage_offset");
  return !offset || node.input(static_cast<size_t>(*offset))->type()->kind() !=
                        c10::TypeKind::NoneType;
}

}  // namespace

bool only_passes_values_on(const torch::jit::Node& node) {
  switch (node.kind()) {
    case c10::prim::ListConstruct:
    case c10::prim::ListUnpack:
    case c10::prim::TupleConstruct:
    case c10::prim::TupleUnpack:
    case c10::prim::TupleIndex:
    case c10::prim::TupleSlice:
    case c10::prim::DictConstruct:
    case c10::prim::CreateObject:
    case c10::prim::Uninitialized:
    case c10::prim::isinstance:
    case c10::prim::Print:
    case c10::prim::RaiseException:
      return true;
    default:
      break;
  }
  // prim::data, prim::unchecked_unwrap_optional, prim::device …
  const c10::FunctionSchema* const schema = node.maybeSchema();
  return node.kind().is_prim() && schema != nullptr && !schema->is_mutable();
}

std::optional<OperatorEffects> OperatorEffects::find(
    const torch::jit::Node& node) {
  const c10::FunctionSchema* const schema = node.maybeSchema();
  const torch::jit::Operator* const op = node.maybeOperator();
  if (schema == nullptr || op == nullptr || schema->is_vararg() ||
      schema->arguments().size() > 64 ||
      op->aliasAnalysisKind() == c10::AliasAnalysisKind::CONSERVATIVE) {
    return std::nullopt;
  }
  const OperatorFacts* const facts = find_operator_facts(*schema);
  if (facts == nullptr) return std::nullopt;
  OperatorEffects effects(*schema);
  effects.returned_ = mask_of(*schema, [facts](const c10::Argument& argument) {
    return facts->may_return(argument);
  });
  effects.written_ = mask_of(*schema, [facts](const c10::Argument& argument) {
    return facts->may_write(argument);
  });
  // As x.set_(y): afterwards x sees the memory of y.
  if (effects.returned_ != 0 && !effects.fills_a_container() &&
      mask_of(*schema, declares_write) != 0) {
    return std::nullopt;
  }
  effects.sees_storage_ = counts_from_the_storage(node);
  return effects;
}

std::optional<size_t> OperatorEffects::training_input() const {
  for (size_t i = 0; i < schema_.arguments().size(); ++i) {
    const std::string& name = schema_.arguments()[i].name();
    if (name == "training" || name == "use_input_stats") return i;
  }
  return std::nullopt;
}

bool OperatorEffects::writes(size_t argument, bool trains) const {
  if (trains && has(written_, argument)) return true;
  // Elements of a container are annotated where they are written.
  const c10::Argument& formal = schema_.arguments()[argument];
  return declares_write(formal) && !fills(formal);
}

bool OperatorEffects::fills_a_container() const {
  const auto& arguments = schema_.arguments();
  return std::any_of(arguments.begin(), arguments.end(), fills);
}

bool OperatorEffects::may_return(size_t argument, size_t result) const {
  if (argument >= schema_.arguments().size() ||
      result >= schema_.returns().size()) {
    return true;
  }
  if (has(returned_, argument)) return true;
  const std::set<c10::Symbol> results = sets_of(schema_.returns()[result]);
  if (results.count(c10::AliasInfo::wildcardSet()) > 0) return true;
  const std::set<c10::Symbol> arguments =
      sets_of(schema_.arguments()[argument]);
  return std::any_of(arguments.begin(), arguments.end(),
                     [&](c10::Symbol set) { return results.count(set) > 0; });
}

}  // namespace ferry
