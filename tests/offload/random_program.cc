#include "tests/offload/random_program.h"

#include <cctype>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "platform/base/check.h"

namespace ferry {
namespace {

using Holder = ProgramAttribute::Holder;

void add_function(const ProgramFunction& function, absl::string_view indent,
                  std::string* text) {
  absl::StrAppend(text, indent, function.head, "\n");
  for (const ProgramStatement& statement : function.body) {
    for (const absl::string_view line : absl::StrSplit(statement.code, '\n')) {
      absl::StrAppend(text, indent, "  ", line, "\n");
    }
  }
}

std::string type_of(const ProgramAttribute& attribute) {
  switch (attribute.holder) {
    case Holder::kParameter:
    case Holder::kBuffer:
    case Holder::kAttribute:
      return "Tensor";
    case Holder::kList:
      return "List[Tensor]";
    case Holder::kDict:
      return "Dict[str, Tensor]";
    case Holder::kTuple:
      return "Tuple[Tensor, Tensor]";
    case Holder::kInt:
      return "int";
    case Holder::kModule:
      break;
  }
  return absl::StrCat("__torch__.program.",
                      attribute.is_interface ? "BlockLike" : attribute.module);
}

std::string names(const std::vector<std::string>& all) {
  std::string text = "[";
  for (const std::string& name : all)
    absl::StrAppend(&text, "\"", name, "\", ");
  return text + "]";
}

void add_names(const ProgramClass& made, Holder holder, absl::string_view key,
               std::string* text) {
  std::vector<std::string> found;
  for (const ProgramAttribute& attribute : made.attributes) {
    if (attribute.holder == holder) found.push_back(attribute.name);
  }
  absl::StrAppend(text, "  ", key, " = ", names(found), "\n");
}

void add_class(const ProgramClass& made, std::string* text) {
  absl::StrAppend(text, "class ", made.name,
                  made.is_interface ? "(ModuleInterface):\n" : "(Module):\n");
  if (!made.is_interface) {
    add_names(made, Holder::kParameter, "__parameters__", text);
    add_names(made, Holder::kBuffer, "__buffers__", text);
    if (!made.pre_hooks.empty()) {
      absl::StrAppend(text, "  __forward_pre_hooks__ = ", names(made.pre_hooks),
                      "\n");
    }
    if (!made.hooks.empty()) {
      absl::StrAppend(text, "  __forward_hooks__ = ", names(made.hooks), "\n");
    }
    absl::StrAppend(text, "  training : bool\n");
  }
  for (const ProgramAttribute& attribute : made.attributes) {
    // Names of children of a list are numbers.
    if (std::isdigit(static_cast<unsigned char>(attribute.name[0]))) {
      absl::StrAppend(text, "  __annotations__[\"", attribute.name,
                      "\"] = ", type_of(attribute), "\n");
    } else {
      absl::StrAppend(text, "  ", attribute.name, " : ", type_of(attribute),
                      "\n");
    }
  }
  for (const ProgramFunction& method : made.methods) {
    add_function(method, "  ", text);
  }
}

template <typename Program, typename Visit>
void for_each_function(Program& program, const Visit& visit) {
  for (auto& made : program.classes) {
    if (made.is_interface) continue;
    for (auto& method : made.methods) visit(method);
  }
  for (auto& function : program.functions) visit(function);
}

// Leaves attributes out that hold tensors and that no method names.
RandomProgram strip(RandomProgram program) {
  std::string code;
  for_each_function(program, [&](const ProgramFunction& function) {
    add_function(function, "", &code);
  });
  for (ProgramClass& made : program.classes) {
    std::vector<ProgramAttribute> kept;
    for (ProgramAttribute& attribute : made.attributes) {
      const bool is_used =
          attribute.holder == Holder::kModule ||
          code.find(absl::StrCat(".", attribute.name)) != std::string::npos;
      if (is_used) kept.push_back(std::move(attribute));
    }
    made.attributes = std::move(kept);
  }
  program.is_stripped = false;
  return program;
}

int64_t tensors_of(const RandomProgram& program, const std::string& name) {
  int64_t count = 0;
  for (const ProgramClass& made : program.classes) {
    if (made.name != name) continue;
    for (const ProgramAttribute& attribute : made.attributes) {
      switch (attribute.holder) {
        case Holder::kModule:
          if (attribute.alias_of.empty()) {
            count += tensors_of(program, attribute.module);
          }
          break;
        case Holder::kInt:
          break;
        case Holder::kList:
        case Holder::kTuple:
          count += 2;
          break;
        default:
          ++count;
      }
    }
  }
  return count;
}

}  // namespace

ProgramAttribute tensor_attribute(std::string name, char shape, Holder holder,
                                  std::string dtype) {
  ProgramAttribute attribute;
  attribute.name = std::move(name);
  attribute.shape = shape;
  attribute.holder = holder;
  attribute.dtype = std::move(dtype);
  return attribute;
}

ProgramAttribute module_attribute(std::string name, std::string made) {
  ProgramAttribute attribute;
  attribute.name = std::move(name);
  attribute.holder = Holder::kModule;
  attribute.module = std::move(made);
  return attribute;
}

int64_t RandomProgram::image_bytes() const {
  return kTensorImageBytes * (constants + tensors_of(*this, "Root"));
}

std::string RandomProgram::source() const {
  if (is_stripped) return strip(*this).source();
  std::string text;
  for (const ProgramClass& made : classes) add_class(made, &text);
  for (const ProgramFunction& function : functions) {
    add_function(function, "", &text);
  }
  return text;
}

bool RandomProgram::has_hooks() const {
  for (const ProgramClass& made : classes) {
    if (!made.hooks.empty() || !made.pre_hooks.empty()) return true;
  }
  return false;
}

size_t RandomProgram::removable() const {
  size_t count = 0;
  for_each_function(*this, [&](const ProgramFunction& function) {
    for (const ProgramStatement& statement : function.body) {
      count += statement.is_fixed ? 0 : 1;
    }
  });
  return count;
}

RandomProgram RandomProgram::without(size_t index) const {
  FERRY_CHECK_LT(index, removable());
  RandomProgram made = *this;
  size_t number = 0;
  for_each_function(made, [&](ProgramFunction& function) {
    std::vector<ProgramStatement> kept;
    for (ProgramStatement& statement : function.body) {
      if (statement.is_fixed || number++ != index) {
        kept.push_back(std::move(statement));
      }
    }
    function.body = std::move(kept);
  });
  return made;
}

std::string to_string(const std::set<ProgramOddity>& oddities) {
  static constexpr const char* kNames[kProgramOddities] = {
      "hooks",          "free functions", "writes",           "silent writes",
      "silent writers", "stores",         "outside reads",    "returned views",
      "ties",           "autograd",       "random operators", "counters",
      "constants",      "gradient blocks"};
  std::vector<std::string> found;
  for (const ProgramOddity oddity : oddities) {
    found.emplace_back(kNames[static_cast<size_t>(oddity)]);
  }
  return found.empty() ? "plain" : absl::StrJoin(found, ", ");
}

}  // namespace ferry
