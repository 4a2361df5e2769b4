#include "tests/offload/load_program.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/randn.h>
#include <torch/csrc/jit/api/compilation_unit.h>
#include <torch/csrc/jit/api/function_impl.h>
#include <torch/csrc/jit/ir/ir.h>
#include <torch/csrc/jit/serialization/import_source.h>

#include <functional>
#include <set>
#include <stdexcept>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace ferry {
namespace {

using Holder = ProgramAttribute::Holder;
using Layout = ProgramAttribute::Layout;

// Of LibTorch's operators, as archives carry it.
constexpr size_t kOperatorVersion = 10;

c10::ScalarType scalar_type(const std::string& dtype) {
  static const auto* const kTypes = new std::map<std::string, c10::ScalarType>{
      {"float", c10::kFloat},
      {"bfloat16", c10::kBFloat16},
      {"half", c10::kHalf},
      {"int8", c10::kChar},
      {"uint8", c10::kByte},
      {"int64", c10::kLong},
      {"float8_e4m3fn", c10::kFloat8_e4m3fn},
      {"float8_e5m2", c10::kFloat8_e5m2}};
  return kTypes->at(dtype);
}

c10::List<std::string> names(const std::vector<std::string>& list) {
  return c10::List<std::string>(c10::ArrayRef<std::string>(list));
}

// Makes the objects of one module.
class ObjectMaker {
 public:
  using TypeOf = std::function<c10::ClassTypePtr(const std::string&)>;

  // `types` are those of the program's classes. All outlive it.
  ObjectMaker(const RandomProgram& program,
              std::shared_ptr<torch::jit::CompilationUnit> unit, TypeOf type_of)
      : program_(program),
        unit_(std::move(unit)),
        type_of_(std::move(type_of)),
        generator_(at::detail::createCPUGenerator(program.seed)) {
    for (const ProgramClass& made : program.classes) {
      classes_[made.name] = &made;
    }
  }

  torch::jit::Module make_root(const torch::jit::Module& plan) {
    torch::jit::Module root = make("Root");
    declare(plan, &root);
    root.eval();
    return root;
  }

 private:
  torch::jit::Module make(const std::string& name) {
    torch::jit::Module module(unit_, type_of_(name));
    module.setattr("training", false);
    // Those of a stripped program are fewer.
    for (const ProgramAttribute& attribute : classes_.at(name)->attributes) {
      c10::IValue value = make_value(attribute, module);
      if (module.hasattr(attribute.name)) {
        module.setattr(attribute.name, std::move(value));
      }
    }
    return module;
  }

  c10::IValue make_value(const ProgramAttribute& attribute,
                         const torch::jit::Module& parent) {
    switch (attribute.holder) {
      case Holder::kModule: {
        if (attribute.alias_of.empty()) return make(attribute.module)._ivalue();
        torch::jit::Module module = parent;
        for (const absl::string_view name :
             absl::StrSplit(attribute.alias_of, '.')) {
          module = module.attr(std::string(name)).toModule();
        }
        return module._ivalue();
      }
      case Holder::kList:
        return c10::List<at::Tensor>({tensor(attribute), tensor(attribute)});
      case Holder::kDict: {
        c10::Dict<std::string, at::Tensor> dict;
        dict.insert("k", tensor(attribute));
        return dict;
      }
      case Holder::kTuple:
        return c10::ivalue::Tuple::create(
            {tensor(attribute), tensor(attribute)});
      case Holder::kInt:
        return int64_t{0};
      default:
        return tensor(attribute);
    }
  }

  at::Tensor tensor(const ProgramAttribute& attribute) {
    if (attribute.tie.empty()) return draw(attribute);
    at::Tensor& tied = tied_[attribute.tie];
    if (!tied.defined()) tied = draw(attribute);
    return tied;
  }

  at::Tensor draw(const ProgramAttribute& attribute) {
    const int64_t width = kProgramWidth;
    const c10::ScalarType type = scalar_type(attribute.dtype);
    const auto values = [&](at::IntArrayRef shape) {
      const at::Tensor drawn = at::randn(shape, generator_, at::kFloat) * 0.3;
      return c10::isIntegralType(type, false) ? (drawn.abs() * 6).to(type)
                                              : drawn.to(type);
    };
    if (attribute.shape == 'S') return values({});
    if (attribute.shape == 'V') return values({width});
    switch (attribute.layout) {
      case Layout::kContiguous:
        return values({width, width});
      case Layout::kTransposed:
        return values({width, width}).t();
      case Layout::kOffset:
        return values({5 + width * width + 3})
            .as_strided({width, width}, {width, 1}, 5);
      case Layout::kExpanded:
        return values({width}).expand({width, width});
    }
    throw std::logic_error("a layout that there is not");
  }

  void declare(const torch::jit::Module& plan, torch::jit::Module* root) {
    const auto strings = c10::ListType::ofStrings();
    root->register_attribute("_dit_modules", strings, names(program_.dits));
    root->register_attribute("_encoder_modules", strings,
                             names(program_.encoders));
    root->register_attribute("_vae_modules", strings, names(program_.vaes));
    root->register_module("_offload_plan", plan);
  }

  const RandomProgram& program_;
  const std::shared_ptr<torch::jit::CompilationUnit> unit_;
  const TypeOf type_of_;
  at::Generator generator_;
  std::map<std::string, const ProgramClass*> classes_;
  std::map<std::string, at::Tensor> tied_;
};

// Counts operators of a block, and follows calls of functions.
class Counter {
 public:
  void count(const torch::jit::Block& block) {
    for (const torch::jit::Node* node : block.nodes()) {
      if (node->kind().is_aten()) ++counts_[node->kind().toQualString()];
      if (node->kind() == c10::prim::CallFunction) {
        const auto type = node->input(0)->type()->expect<c10::FunctionType>();
        add(type->function());
      }
      for (const torch::jit::Block* inner : node->blocks()) count(*inner);
    }
  }

  void add(torch::jit::Function* function) {
    if (!counted_.insert(function).second) return;
    if (auto* const graph = torch::jit::tryToGraphFunction(*function)) {
      count(*graph->graph()->block());
    }
  }

  std::map<std::string, int> take() { return std::move(counts_); }

 private:
  std::map<std::string, int> counts_;
  std::set<const torch::jit::Function*> counted_;
};

}  // namespace

class CompiledProgram::Compiler {
 public:
  explicit Compiler(const RandomProgram& program)
      : source_(program.source()),
        unit_(std::make_shared<torch::jit::CompilationUnit>()),
        constants_(make_constants(program)),
        importer_(
            unit_, &constants_,
            [this](const std::string& qualifier) { return load(qualifier); },
            kOperatorVersion),
        plan_(make_plan(program)) {}

  const torch::jit::Module& plan() const { return plan_; }
  const std::shared_ptr<torch::jit::CompilationUnit>& unit() const {
    return unit_;
  }
  c10::ClassTypePtr type_of(const std::string& name) const {
    return importer_.loadType(absl::StrCat("__torch__.program.", name))
        ->expect<c10::ClassType>();
  }

 private:
  std::shared_ptr<torch::jit::Source> load(const std::string& qualifier) {
    if (qualifier != "__torch__.program") return nullptr;
    return std::make_shared<torch::jit::Source>(source_, "program.py", 1);
  }

  static std::vector<at::IValue> make_constants(const RandomProgram& program) {
    at::Generator generator = at::detail::createCPUGenerator(~program.seed);
    std::vector<at::IValue> constants;
    for (int i = 0; i < program.constants; ++i) {
      constants.emplace_back(at::randn({kProgramWidth}, generator, at::kFloat) *
                             0.3);
    }
    return constants;
  }

  torch::jit::Module make_plan(const RandomProgram& program) {
    const auto strings = c10::ListType::ofStrings();
    torch::jit::Module plan(c10::QualifiedName("__torch__.program.OffloadPlan"),
                            unit_, /*shouldMangle=*/true);
    const auto type = c10::DictType::create(c10::StringType::get(), strings);
    c10::Dict<std::string, c10::List<std::string>> of_dits;
    for (const std::string& path : program.dits) {
      of_dits.insert(path, names({"blocks"}));
    }
    c10::Dict<std::string, c10::List<std::string>> of_encoders;
    for (const std::string& path : program.encoders) {
      of_encoders.insert(path, names(program.encoder_lists));
    }
    plan.register_attribute("block_attrs", type, of_dits);
    plan.register_attribute("encoder_block_attrs", type, of_encoders);
    plan.register_attribute("resident_dit_paths", strings, names(program.dits));
    plan.register_attribute("encoder_dlo_weight_replication", strings,
                            names(program.encoders));
    return plan;
  }

  const std::string source_;
  const std::shared_ptr<torch::jit::CompilationUnit> unit_;
  const std::vector<at::IValue> constants_;
  const torch::jit::SourceImporter importer_;
  const torch::jit::Module plan_;
};

CompiledProgram::CompiledProgram(RandomProgram program)
    : program_(std::move(program)),
      compiler_(std::make_unique<Compiler>(program_)) {}

CompiledProgram::~CompiledProgram() = default;

torch::jit::Module CompiledProgram::make_root() const {
  const at::NoGradGuard no_grad;
  return ObjectMaker(program_, compiler_->unit(),
                     [this](const std::string& name) {
                       return compiler_->type_of(name);
                     })
      .make_root(compiler_->plan());
}

torch::jit::Module load_program(const RandomProgram& program) {
  return CompiledProgram(program).make_root();
}

std::map<std::string, int> count_operators(const torch::jit::Module& root) {
  Counter counter;
  for (const torch::jit::Module& module : root.modules()) {
    for (torch::jit::Function* method : module.type()->methods()) {
      counter.add(method);
    }
  }
  return counter.take();
}

}  // namespace ferry
