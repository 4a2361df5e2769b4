#include "tests/offload/stream_model.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tanh.h>
#include <ATen/ops/view_as_real.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/frontend/tracer.h>

#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/substitute.h"

namespace ferry {
namespace {

using torch::jit::CompilationUnit;
using torch::jit::Module;

// An attribute of a block.
struct Attribute {
  std::string name;
  c10::TypePtr type;
  c10::IValue value;
  bool is_parameter = false;
  bool is_buffer = false;
};

c10::ScalarType scalar_type(StreamCase::Dtype dtype) {
  switch (dtype) {
    case StreamCase::Dtype::kFloat:
      return c10::kFloat;
    case StreamCase::Dtype::kDouble:
      return c10::kDouble;
    case StreamCase::Dtype::kHalf:
      return c10::kHalf;
    case StreamCase::Dtype::kBFloat16:
      return c10::kBFloat16;
    case StreamCase::Dtype::kFloat8:
      return c10::kFloat8_e4m3fn;
    case StreamCase::Dtype::kInt8:
      return c10::kChar;
    case StreamCase::Dtype::kComplex:
      return c10::kComplexFloat;
    case StreamCase::Dtype::kBool:
      return c10::kBool;
  }
  return c10::kFloat;
}

// A row of the extra tensor's values, whatever it is. 6 is float32.
constexpr char kFold[] = R"(
def fold(self, e: Tensor):
    if torch.is_complex(e):
        e = torch.view_as_real(e).sum(-1)
    e = e.to(6)
    if e.dim() == 2:
        e = e.sum(0)
    return torch.tanh(e)
)";

at::Tensor fold(at::Tensor e) {
  if (e.is_complex()) e = at::view_as_real(e).sum(-1);
  e = e.to(c10::kFloat);
  if (e.dim() == 2) e = e.sum(0);
  return at::tanh(e);
}

// Makes the modules of one case.
class Maker {
 public:
  explicit Maker(const StreamCase& wanted)
      : case_(wanted),
        unit_(std::make_shared<CompilationUnit>()),
        generator_(at::detail::createCPUGenerator(wanted.model)) {}

  Module make_root() {
    Module root = make_module("Pipeline");
    std::vector<std::string> dits = {kStreamDit};
    root.register_module(kStreamDit, make_stack("Transformer", true));
    if (case_.has_second_dit()) {
      dits.push_back("transformer_2");
      root.register_module("transformer_2", make_stack("Transformer", true));
    }
    std::vector<std::string> encoders;
    if (case_.has_encoder()) {
      encoders.push_back("text_encoder");
      root.register_module("text_encoder", make_stack("TextEncoder", false));
    }
    root.register_buffer("gain", random({1}, 0.1));
    declare(root, dits, encoders);
    root.define(denoise_source());
    root.eval();
    return root;
  }

 private:
  Module make_module(const std::string& name) {
    return Module(c10::QualifiedName("__torch__.stream." + name), unit_,
                  /*shouldMangle=*/true);
  }

  at::Tensor random(at::IntArrayRef shape, double scale) {
    return at::randn(shape, generator_, at::kFloat) * scale;
  }

  at::Tensor make_extra() {
    constexpr int64_t kOffset = 37;
    const c10::ScalarType dtype = scalar_type(case_.dtype);
    const int64_t width = kStreamWidth;
    const auto values = [&](at::IntArrayRef shape) {
      return case_.dtype == StreamCase::Dtype::kBool
                 ? random(shape, 1).gt(0)
                 : random(shape,
                          case_.dtype == StreamCase::Dtype::kInt8 ? 20 : 1)
                       .to(dtype);
    };
    switch (case_.layout) {
      case StreamCase::Layout::kContiguous:
        return values({width, width});
      case StreamCase::Layout::kTransposed:
        return values({width, width}).t();
      case StreamCase::Layout::kOffset:
        return values({kOffset + width * width + 5})
            .as_strided({width, width}, {width, 1}, kOffset);
      case StreamCase::Layout::kExpanded:
        return values({width}).expand({width, width});
      case StreamCase::Layout::kScalar:
        return values({});
    }
    return {};
  }

  // The extra tensor in its holder, and how code gets at it.
  Attribute hold(const at::Tensor& extra) {
    const auto tensor = c10::TensorType::get();
    switch (holder()) {
      case StreamCase::Holder::kParameter:
        return {"extra", tensor, extra, true, false};
      case StreamCase::Holder::kBuffer:
        return {"extra", tensor, extra, false, true};
      case StreamCase::Holder::kAttribute:
        return {"extra", tensor, extra};
      case StreamCase::Holder::kList:
        return {"extra", c10::ListType::ofTensors(),
                c10::List<at::Tensor>({random({2}, 1), extra})};
      case StreamCase::Holder::kDict: {
        c10::Dict<std::string, at::Tensor> dict;
        dict.insert("extra", extra);
        return {"extra", c10::DictType::create(c10::StringType::get(), tensor),
                dict};
      }
      case StreamCase::Holder::kTuple:
        return {"extra", c10::TupleType::create({c10::IntType::get(), tensor}),
                c10::ivalue::Tuple::create({3, extra})};
      case StreamCase::Holder::kSubmodule:
        break;
    }
    const Module inner = make_inner(extra);
    return {"inner", inner.type(), inner._ivalue()};
  }

  bool is_traced() const { return case_.blocks == StreamCase::Blocks::kTraced; }

  StreamCase::Holder holder() const {
    switch (case_.holder) {
      case StreamCase::Holder::kParameter:
      case StreamCase::Holder::kBuffer:
        return case_.holder;
      default:
        return is_traced() ? StreamCase::Holder::kAttribute : case_.holder;
    }
  }

  // Instead of an attribute that the tracer cannot look into.
  bool is_constant() const {
    return is_traced() && case_.dtype != StreamCase::Dtype::kFloat8 &&
           (case_.holder == StreamCase::Holder::kList ||
            case_.holder == StreamCase::Holder::kDict ||
            case_.holder == StreamCase::Holder::kTuple);
  }

  std::string extra_expression() const {
    switch (holder()) {
      case StreamCase::Holder::kList:
        return "self.extra[1]";
      case StreamCase::Holder::kDict:
        return "self.extra[\"extra\"]";
      case StreamCase::Holder::kTuple:
        return "self.extra[1]";
      case StreamCase::Holder::kSubmodule:
        return "self.inner.get()";
      default:
        return "self.extra";
    }
  }

  // Blocks of one type share the types of their submodules too.
  Module make_inner(const at::Tensor& extra) {
    if (inner_type_ == nullptr ||
        case_.blocks == StreamCase::Blocks::kOwnTypes) {
      Module inner = make_module("Inner");
      inner.register_buffer("e", extra);
      inner.define("def get(self):\n    return self.e\n");
      inner_type_ = inner.type();
      return inner;
    }
    Module inner(unit_, inner_type_);
    inner.setattr("e", extra);
    return inner;
  }

  std::vector<Attribute> make_attributes() {
    const auto tensor = c10::TensorType::get();
    const at::Tensor weight = random({kStreamWidth, kStreamWidth}, 0.3);
    const at::Tensor bias = random({kStreamWidth}, 0.3);
    if (!first_weight_.defined()) first_weight_ = weight;
    std::vector<Attribute> attributes = {{"weight", tensor, weight, true},
                                         {"bias", tensor, bias, true}};
    extra_ = make_extra();
    if (!is_constant()) attributes.push_back(hold(extra_));
    switch (case_.tie) {
      case StreamCase::Tie::kInside:
        attributes.push_back({"tied", tensor, weight.t(), false, true});
        break;
      case StreamCase::Tie::kBetweenBlocks:
        attributes.push_back({"tied", tensor, first_weight_, true});
        break;
      case StreamCase::Tie::kNone:
      case StreamCase::Tie::kOutside:
        attributes.push_back(
            {"tied", tensor, random({1, kStreamWidth}, 1), false, true});
    }
    attributes.push_back(
        {"memory", tensor, random({2, kStreamWidth}, 0.1), false, true});
    return attributes;
  }

  // What is remembered stays small, and the way of x through the blocks is
  // linear: every byte of a bias counts in the result.
  std::string write_source() const {
    switch (case_.writes) {
      case StreamCase::Writes::kNothing:
        return "";
      case StreamCase::Writes::kBuffer:
        return "    self.memory.mul_(0.5).add_(torch.tanh(x[:1]).mean())\n";
      case StreamCase::Writes::kView:
        return "    self.memory[0].mul_(0.5).add_(torch.tanh(x[0]))\n";
      case StreamCase::Writes::kAttribute:
        return "    self.memory = self.memory * 0.5 + torch.tanh(x)\n";
    }
    return "";
  }

  std::string return_source() const {
    switch (case_.output) {
      case StreamCase::Output::kPlain:
        return "    return x\n";
      case StreamCase::Output::kTuple:
        return "    return x, self.bias.view(1, -1).expand(2, -1)\n";
      case StreamCase::Output::kDict:
        return "    return {\"x\": x, \"view\": self.bias[2:]}\n";
      case StreamCase::Output::kList:
        return "    return [x, self.weight.t()]\n";
    }
    return "";
  }

  Module make_block() {
    std::vector<Attribute> attributes = make_attributes();
    if (case_.blocks == StreamCase::Blocks::kSharedType && block_type_) {
      Module block(unit_, block_type_);
      for (Attribute& attribute : attributes) {
        block.setattr(attribute.name, std::move(attribute.value));
      }
      return block;
    }
    Module block = make_module("Block");
    for (Attribute& attribute : attributes) {
      block.type()->addAttribute(attribute.name, attribute.type,
                                 attribute.is_parameter, attribute.is_buffer);
      block._ivalue()->setAttr(attribute.name, std::move(attribute.value));
    }
    if (is_traced()) {
      trace(block);
    } else {
      block.define(kFold);
      block.define(absl::Substitute(
          R"(
def forward(self, x, t: Tensor):
    h = torch.tanh(torch.matmul(x + t, self.weight) + self.bias)
    x = x + 0.5 * h + 0.1 * self.fold($0) + 0.1 * self.tied[0]
    x = x + 0.1 * self.memory.sum(0) + 0.1 * self.bias
$1$2)",
          extra_expression(), write_source(), return_source()));
      block_type_ = block.type();
    }
    return block;
  }

  // What the tracer sees of a block. Attributes cannot be set in a trace; a
  // constant stands for what it cannot look into.
  torch::jit::Stack traced_forward(const Module& block, at::Tensor x,
                                   const at::Tensor& t) {
    const at::Tensor extra =
        is_constant() ? extra_ : block.attr("extra").toTensor();
    const at::Tensor weight = block.attr("weight").toTensor();
    const at::Tensor bias = block.attr("bias").toTensor();
    at::Tensor memory = block.attr("memory").toTensor();
    const at::Tensor h = at::tanh(at::matmul(x + t, weight) + bias);
    x = x + h * 0.5 + fold(extra) * 0.1 +
        block.attr("tied").toTensor().select(0, 0) * 0.1;
    x = x + memory.sum(0) * 0.1 + bias * 0.1;
    if (case_.writes == StreamCase::Writes::kBuffer) {
      memory.mul_(0.5).add_(at::tanh(x.narrow(0, 0, 1)).mean());
    } else if (case_.writes == StreamCase::Writes::kView) {
      memory.select(0, 0).mul_(0.5).add_(at::tanh(x.select(0, 0)));
    }
    switch (case_.output) {
      case StreamCase::Output::kPlain:
        return {x};
      case StreamCase::Output::kList:
        return {c10::ivalue::Tuple::create({x, weight.t()})};
      default:
        return {c10::ivalue::Tuple::create(
            {x, bias.view({1, -1}).expand({2, -1})})};
    }
  }

  void trace(Module& block) {
    const at::Tensor x = at::ones({2, kStreamWidth});
    const at::Tensor before = block.attr("memory").toTensor().clone();
    const auto traced = torch::jit::tracer::trace(
        {x, at::ones({1})},
        [&](const torch::jit::Stack& inputs) {
          return traced_forward(block, inputs[0].toTensor(),
                                inputs[1].toTensor());
        },
        [](const torch::autograd::Variable&) { return std::string(); },
        /*strict=*/false, /*force_outplace=*/false, &block, {"x", "t"});
    block.attr("memory").toTensor().copy_(before);
    block.type()->addMethod(unit_->create_function(
        c10::QualifiedName(*block.type()->name(), "forward"),
        traced.first->graph));
  }

  // Lines that call block `index`. What it returns beside x is used when all
  // blocks have run.
  std::string call(int index, const std::string& indent) const {
    const std::string callee =
        absl::Substitute("getattr(self.blocks, \"$0\").forward(x, t)\n", index);
    switch (case_.output) {
      case StreamCase::Output::kPlain:
        return absl::StrCat(indent, "x = ", callee);
      case StreamCase::Output::kTuple:
        return absl::StrCat(indent, "x, v = ", callee, indent,
                            "views.append(v)\n");
      case StreamCase::Output::kDict:
        if (is_traced()) break;
        return absl::StrCat(indent, "d = ", callee, indent, "x = d[\"x\"]\n",
                            indent, "views.append(d[\"view\"])\n");
      case StreamCase::Output::kList:
        if (is_traced()) break;
        return absl::StrCat(indent, "l = ", callee, indent, "x = l[0]\n",
                            indent, "views.append(l[1])\n");
    }
    return absl::StrCat(indent, "x, v = ", callee, indent, "views.append(v)\n");
  }

  std::string calls(bool reversed, const std::string& indent, int step = 1,
                    int repeats = 1) const {
    std::string code;
    for (int i = 0; i < case_.block_count; i += step) {
      const int index = reversed ? case_.block_count - 1 - i : i;
      for (int r = 0; r < repeats; ++r) {
        absl::StrAppend(&code, call(index, indent));
      }
    }
    return code;
  }

  std::string pass_source() const {
    const std::string one = "    ";
    const std::string two = "        ";
    switch (case_.order) {
      case StreamCase::Order::kInOrder:
        return calls(false, one);
      case StreamCase::Order::kReversed:
        return calls(true, one);
      case StreamCase::Order::kTwice:
        return calls(false, one, 1, 2);
      case StreamCase::Order::kSkipping:
        return absl::StrCat("    if level > 700.0:\n", calls(false, two),
                            "    else:\n", calls(true, two, 2));
      case StreamCase::Order::kChanging:
        return absl::StrCat("    if level > 700.0:\n", calls(false, two),
                            "    else:\n", calls(true, two));
      case StreamCase::Order::kRepeatedPass:
        return absl::StrCat("    for r in range(2):\n", calls(false, two));
      case StreamCase::Order::kFailing:
        break;
    }
    return absl::StrCat(call(case_.block_count / 2, one),
                        "    assert not fail, \"told to\"\n",
                        calls(false, one));
  }

  Module make_stack(const std::string& name, bool is_dit) {
    Module list = make_module("ModuleList");
    for (int i = 0; i < case_.block_count; ++i) {
      list.register_module(absl::StrCat(i), make_block());
    }
    Module stack = make_module(name);
    stack.register_module("blocks", list);
    stack.register_parameter("proj", random({kStreamWidth, kStreamWidth}, 0.4),
                             false);
    stack.register_buffer("tied", case_.tie == StreamCase::Tie::kOutside
                                      ? first_weight_
                                      : random({kStreamWidth, 8}, 0.4));
    stack.define(absl::StrCat(R"(
def forward(self, x, level: float, fail: bool):
    views: List[Tensor] = []
    t = torch.full([1], level / 1000.0)
    x = torch.matmul(x, self.proj) + 0.1 * self.tied[0]
)",
                              is_dit ? pass_source() : calls(false, "    "),
                              R"(
    for v in views:
        x = x + 0.01 * v.sum()
    return 0.1 * x
)"));
    return stack;
  }

  void declare(Module& root, const std::vector<std::string>& dits,
               const std::vector<std::string>& encoders) {
    const auto names = [](const std::vector<std::string>& list) {
      return c10::List<std::string>(c10::ArrayRef<std::string>(list));
    };
    const auto strings = c10::ListType::ofStrings();
    root.register_attribute("_dit_modules", strings, names(dits));
    root.register_attribute("_encoder_modules", strings, names(encoders));
    Module plan = make_module("OffloadPlan");
    const auto type = c10::DictType::create(c10::StringType::get(), strings);
    for (const auto& [attribute, paths] :
         {std::pair{"block_attrs", dits},
          std::pair{"encoder_block_attrs", encoders}}) {
      c10::Dict<std::string, c10::List<std::string>> dict;
      for (const std::string& path : paths)
        dict.insert(path, names({"blocks"}));
      plan.register_attribute(attribute, type, dict);
    }
    plan.register_attribute("resident_dit_paths", strings, names(dits));
    root.register_module("_offload_plan", plan);
  }

  std::string denoise_source() const {
    std::string code = "def denoise(self, x, level: float, fail: bool):\n";
    if (case_.has_encoder()) {
      code += "    x = self.text_encoder.forward(x, level, False)\n";
    }
    if (case_.has_second_dit()) {
      code +=
          "    if level < 500.0:\n"
          "        return self.transformer_2.forward(x, level, fail)\n";
    }
    return code +
           "    y = self.transformer.forward(x, level, fail)\n"
           "    return y + self.gain\n";
  }

  const StreamCase case_;
  const std::shared_ptr<CompilationUnit> unit_;
  at::Generator generator_;
  at::Tensor first_weight_;
  // Of the block that is made.
  at::Tensor extra_;
  c10::ClassTypePtr block_type_;
  c10::ClassTypePtr inner_type_;
};

}  // namespace

Module make_stream_model(const StreamCase& wanted) {
  const at::NoGradGuard no_grad;
  return Maker(wanted).make_root();
}

}  // namespace ferry
