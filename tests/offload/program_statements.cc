#include "tests/offload/program_statements.h"

#include <cstring>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"

namespace ferry {
namespace {

using Holder = ProgramAttribute::Holder;

// What is stored stands in these: a tensor, a list, a dict.
bool is_store(const ProgramAttribute& attribute) {
  return absl::StrContains(attribute.name, "kept");
}

// An integer that counts, in an attribute or a buffer.
bool is_counter(const ProgramAttribute& attribute) {
  return absl::StartsWith(attribute.name, "count");
}

std::vector<const ProgramAttribute*> tensors_of(const ProgramClass* made) {
  std::vector<const ProgramAttribute*> found;
  if (made == nullptr) return found;
  for (const ProgramAttribute& attribute : made->attributes) {
    const bool is_tensor =
        attribute.holder != Holder::kModule && attribute.holder != Holder::kInt;
    if (is_tensor && !is_store(attribute) && !is_counter(attribute)) {
      found.push_back(&attribute);
    }
  }
  return found;
}

}  // namespace

void ProgramStatements::line(const std::string& text) {
  lines_.push_back(text);
}

std::string ProgramStatements::new_name() {
  return absl::StrCat("v", names_++);
}

std::string ProgramStatements::assign(const std::string& expression) {
  std::string name = new_name();
  line(absl::StrCat(name, " = ", expression));
  return name;
}

std::string ProgramStatements::take_lines() {
  std::string code = absl::StrJoin(lines_, "\n");
  lines_.clear();
  return code;
}

std::string ProgramStatements::draw_condition() {
  static const auto* const kConditions = new std::vector<std::string>{
      "bool(torch.gt(torch.sum(x), 0.))", "bool(torch.lt(torch.mean(x), 0.1))",
      "torch.gt(torch.dim(x), 1)", "bool(torch.gt(torch.amax(x), 0.4))"};
  return draws_.among(*kConditions);
}

ProgramStatement ProgramStatements::draw(const ProgramScope& scope) {
  std::vector<ProgramOddity> choices(scope.oddities.begin(),
                                     scope.oddities.end());
  if (!choices.empty() && draws_.percent(40)) {
    switch (draws_.among(choices)) {
      case ProgramOddity::kWrites:
        write_own(scope, false);
        break;
      case ProgramOddity::kSilentWrites:
        write_own(scope, true);
        break;
      case ProgramOddity::kSilentWriters:
        write_by_silent_writer(scope);
        break;
      case ProgramOddity::kStores:
        store(scope);
        break;
      case ProgramOddity::kRandom:
        use_random(scope);
        break;
      case ProgramOddity::kCounters:
        count(scope);
        break;
      case ProgramOddity::kConstants:
        use_constant(scope);
        break;
      case ProgramOddity::kGradientBlocks:
        differentiate(scope);
        break;
      default:
        read(scope);
    }
  } else if (draws_.percent(25)) {
    write_fresh(scope);
  } else {
    read(scope);
  }
  std::string code = take_lines();
  if (draws_.one_in(8)) {
    code = absl::StrCat(draws_.one_in(2)
                            ? absl::StrCat("if ", draw_condition(), ":")
                            : std::string("for i in range(2):"),
                        "\n  ", absl::StrReplaceAll(code, {{"\n", "\n  "}}));
  }
  return {code, false};
}

std::string ProgramStatements::draw_view(const ProgramScope& scope,
                                         const std::string& name) {
  Value value = fetch(scope);
  view(2, &value);
  if (draws_.one_in(2)) (void)apply(silent_views(), &value);
  line(absl::StrCat(name, " = ", value.name));
  return take_lines();
}

ProgramStatements::Value ProgramStatements::fetch_attribute(
    const std::string& owner, const ProgramAttribute& attribute) {
  const std::string path = absl::StrCat(owner, ".", attribute.name);
  Value value;
  switch (attribute.holder) {
    case Holder::kList:
    case Holder::kTuple:
      value.name = assign(absl::StrCat("(", path, ")[1]"));
      break;
    case Holder::kDict:
      value.name = assign(absl::StrCat("(", path, ")[\"k\"]"));
      break;
    default:
      value.name = assign(path);
  }
  value.shape = attribute.shape;
  value.is_float = attribute.dtype == "float";
  value.is_writable = attribute.layout != ProgramAttribute::Layout::kExpanded;
  return value;
}

ProgramStatements::Value ProgramStatements::fetch(const ProgramScope& scope) {
  const auto own = tensors_of(scope.owner_class);
  const auto inner = tensors_of(scope.inner_class);
  const size_t index = draws_.below(own.size() + inner.size());
  Value value = index < own.size()
                    ? fetch_attribute(scope.owner, *own[index])
                    : fetch_attribute(absl::StrCat(scope.owner, ".inner"),
                                      *inner[index - own.size()]);
  if (draws_.one_in(8)) merge_with(scope, &value);
  return value;
}

void ProgramStatements::merge_with(const ProgramScope& scope, Value* value) {
  for (const ProgramAttribute* other : tensors_of(scope.owner_class)) {
    const bool is_alike =
        other->shape == value->shape &&
        (other->dtype == "float") == value->is_float &&
        (other->layout != ProgramAttribute::Layout::kExpanded) ==
            value->is_writable;
    if (!is_alike || draws_.one_in(2)) continue;
    const Value theirs = fetch_attribute(scope.owner, *other);
    const std::string name = new_name();
    line(absl::StrCat("if ", draw_condition(), ":"));
    line(absl::StrCat("  ", name, " = ", value->name));
    line("else:");
    line(absl::StrCat("  ", name, " = ", theirs.name));
    value->name = name;
    return;
  }
}

void ProgramStatements::pass_around(Value* value) {
  const std::string old = value->name;
  switch (draws_.below(5)) {
    case 0:
      value->name = assign(absl::StrCat("[", old, ", x][0]"));
      return;
    case 1:
      value->name = assign(absl::StrCat("{\"k\": ", old, "}[\"k\"]"));
      return;
    case 2:
      value->name = assign(absl::StrCat("__torch__.program.same(", old, ")"));
      return;
    case 3:
      value->name =
          assign(absl::StrCat("__torch__.program.view_of(", old, ")"));
      return;
    default:
      value->name = new_name();
      line(absl::StrCat(value->name, " = ", old));
      line("for i in range(3):");
      line(
          absl::StrCat("  ", value->name, " = torch.alias(", value->name, ")"));
  }
}

bool ProgramStatements::apply(const std::vector<TensorOperator>& operators,
                              Value* value) {
  std::vector<const TensorOperator*> fitting;
  for (const TensorOperator& one : operators) {
    if (std::strchr(one.takes, value->shape) != nullptr) {
      fitting.push_back(&one);
    }
  }
  if (fitting.empty()) return false;
  const TensorOperator& chosen = *draws_.among(fitting);
  value->name = assign(absl::StrReplaceAll(
      chosen.code,
      {{"$0", value->name}, {"$i", absl::StrCat(draws_.below(2))}}));
  if (chosen.gives != '=') value->shape = chosen.gives;
  return true;
}

void ProgramStatements::view(size_t most, Value* value) {
  for (size_t i = draws_.below(most + 1); i > 0; --i) {
    if (draws_.one_in(6)) {
      pass_around(value);
    } else {
      (void)apply(declared_views(), value);
    }
  }
}

void ProgramStatements::make_float(Value* value) {
  if (value->is_float) return;
  static const auto* const kWays = new std::vector<std::string>{
      "torch.to($0, 6)", "torch.mul(torch.to($0, 6), 0.05)",
      "torch.to($0, dtype=6, layout=None, device=None)",
      "torch.type_as($0, x)"};
  value->name =
      assign(absl::StrReplaceAll(draws_.among(*kWays), {{"$0", value->name}}));
  value->is_float = true;
  value->is_writable = true;
}

void ProgramStatements::add_to_x(const Value& value) {
  std::string term = value.name;
  const bool is_reduced = draws_.one_in(4);
  if (value.shape == 'A' || is_reduced) {
    term = absl::StrCat("torch.mean(", term, ")");
  } else if (value.shape == 'M') {
    term = draws_.one_in(2) ? absl::StrCat("torch.matmul(x, ", term, ")")
                            : absl::StrCat("torch.mean(", term, ", [0])");
  }
  line(draws_.one_in(4)
           ? absl::StrCat("x = torch.mul(x, torch.add(torch.mul(", term,
                          ", 0.1), 1.))")
           : absl::StrCat("x = torch.add(x, torch.mul(", term, ", 0.1))"));
}

void ProgramStatements::read(const ProgramScope& scope) {
  Value value = fetch(scope);
  view(2, &value);
  make_float(&value);
  if (draws_.one_in(5)) (void)apply(overlapping_views(), &value);
  if (draws_.one_in(3)) (void)apply(silent_views(), &value);
  if (draws_.one_in(2)) (void)apply(fresh_operators(), &value);
  add_to_x(value);
}

void ProgramStatements::write_fresh(const ProgramScope& scope) {
  Value value = fetch(scope);
  view(1, &value);
  make_float(&value);
  static const auto* const kCopies = new std::vector<std::string>{
      "torch.clone", "torch.neg", "torch.sin", "torch.cos", "torch.tanh"};
  value.name =
      assign(absl::StrCat(draws_.among(*kCopies), "(", value.name, ")"));
  // Autograd forbids to write one of several views that an operator returns.
  if (!scope.is_differentiated) view(2, &value);
  (void)apply(declared_writers(), &value);
  if (!scope.is_differentiated && draws_.one_in(3)) {
    line("x = torch.mul_(torch.clone(x), 0.9)");
  }
  add_to_x(value);
}

void ProgramStatements::write_own(const ProgramScope& scope, bool silently) {
  Value value = fetch(scope);
  if (!value.is_writable || !value.is_float) {
    make_float(&value);
    return add_to_x(value);
  }
  const Value whole = value;
  view(2, &value);
  if (silently) {
    (void)apply(silent_views(), &value);
    view(1, &value);
  }
  if (draws_.one_in(5)) {
    line(absl::StrCat("__torch__.program.write(", value.name, ")"));
  } else {
    (void)apply(declared_writers(), &value);
  }
  add_to_x(draws_.one_in(2) ? whole : value);
}

void ProgramStatements::write_by_silent_writer(const ProgramScope& scope) {
  for (const ProgramAttribute* attribute : tensors_of(scope.owner_class)) {
    const bool is_fit =
        attribute->shape == 'V' && attribute->dtype == "float" &&
        attribute->layout != ProgramAttribute::Layout::kExpanded;
    if (!is_fit || draws_.one_in(3)) continue;
    const Value statistics = fetch_attribute(scope.owner, *attribute);
    Value result = statistics;
    (void)apply(silent_writers(), &result);
    add_to_x(result);
    return add_to_x(statistics);
  }
  read(scope);
}

void ProgramStatements::store(const ProgramScope& scope) {
  std::vector<const ProgramAttribute*> stores;
  for (const ProgramAttribute& attribute : scope.owner_class->attributes) {
    if (is_store(attribute)) stores.push_back(&attribute);
  }
  if (stores.empty()) return read(scope);
  const ProgramAttribute& chosen = *draws_.among(stores);
  const std::string path = absl::StrCat(scope.owner, ".", chosen.name);
  std::string kept = path;
  if (chosen.holder == Holder::kList) kept = absl::StrCat("(", path, ")[-1]");
  if (chosen.holder == Holder::kDict) {
    kept = absl::StrCat("(", path, ")[\"k\"]");
  }
  // What an earlier pass has left.
  const std::string before = assign(kept);
  line(absl::StrCat("x = torch.add(x, torch.mul(torch.mean(", before,
                    "), 0.1))"));
  Value value = fetch(scope);
  view(2, &value);
  make_float(&value);
  if (draws_.one_in(3)) (void)apply(silent_views(), &value);
  if (draws_.one_in(4)) (void)apply(fresh_operators(), &value);
  switch (chosen.holder) {
    case Holder::kList:
      line(absl::StrCat("torch.append(", path, ", ", value.name, ")"));
      return;
    case Holder::kDict:
      line(
          absl::StrCat("torch._set_item(", path, ", \"k\", ", value.name, ")"));
      return;
    default:
      line(absl::StrCat(path, " = ", value.name));
  }
}

void ProgramStatements::use_random(const ProgramScope& scope) {
  Value value = fetch(scope);
  view(1, &value);
  make_float(&value);
  (void)apply(random_operators(), &value);
  add_to_x(value);
  if (draws_.one_in(2)) line("x = torch.dropout(x, 0.1, True)");
}

void ProgramStatements::count(const ProgramScope& scope) {
  std::vector<const ProgramAttribute*> counters;
  for (const ProgramAttribute& attribute : scope.owner_class->attributes) {
    if (is_counter(attribute)) counters.push_back(&attribute);
  }
  if (counters.empty()) return read(scope);
  const ProgramAttribute& chosen = *draws_.among(counters);
  const std::string path = absl::StrCat(scope.owner, ".", chosen.name);
  if (chosen.holder == Holder::kInt) {
    line(absl::StrCat(path, " = torch.add(", path, ", 1)"));
    line(absl::StrCat("x = torch.add(x, torch.mul(", path, ", 0.01))"));
  } else {
    line(absl::StrCat("torch.add_(", path, ", 1)"));
    line(absl::StrCat("x = torch.add(x, torch.mul(torch.to(", path,
                      ", 6), 0.01))"));
  }
}

void ProgramStatements::use_constant(const ProgramScope& scope) {
  if (scope.constants == 0) return read(scope);
  Value value;
  value.name = assign(absl::StrCat(
      "CONSTANTS.c", draws_.below(static_cast<size_t>(scope.constants))));
  value.shape = 'V';
  value.is_writable = false;
  view(2, &value);
  if (draws_.one_in(3)) (void)apply(silent_views(), &value);
  if (draws_.one_in(2)) (void)apply(fresh_operators(), &value);
  add_to_x(value);
}

void ProgramStatements::differentiate(const ProgramScope& scope) {
  if (scope.is_differentiated) {
    // Within a pass of which gradients are taken: a part without.
    line("torch.set_grad_enabled(False)");
    Value value = fetch(scope);
    view(1, &value);
    make_float(&value);
    value.name = assign(absl::StrCat("torch.cos(", value.name, ")"));
    value.is_writable = true;
    line("torch.set_grad_enabled(True)");
    return add_to_x(value);
  }
  Value value = fetch(scope);
  make_float(&value);
  line("torch.set_grad_enabled(True)");
  const std::string from =
      assign("torch.requires_grad_(torch.clone(torch.detach(x)))");
  const std::string mean =
      assign(absl::StrCat("torch.mean(torch.tanh(torch.mul(", from,
                          ", torch.mean(", value.name, "))))"));
  std::string gradient;
  if (draws_.one_in(2)) {
    line(absl::StrCat("torch.backward(", mean, ")"));
    gradient = assign(absl::StrCat(from, ".grad"));
  } else {
    gradient = assign(
        absl::StrCat("torch.autograd.grad([", mean, "], [", from, "])[0]"));
  }
  line("torch.set_grad_enabled(False)");
  line(absl::StrCat("if torch.__isnot__(", gradient, ", None):"));
  line(absl::StrCat("  x = torch.add(x, torch.mul(unchecked_cast(Tensor, ",
                    gradient, "), 0.1))"));
}

}  // namespace ferry
