#include "pipelines/torchscript/operators/testing/argument_maker.h"

#include <ATen/ATen.h>
#include <ATen/core/List.h>
#include <ATen/core/jit_type.h>

#include <algorithm>
#include <map>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "pipelines/torchscript/operators/testing/argument_seeds.h"
#include "pipelines/torchscript/operators/testing/tensor_maker.h"

namespace ferry {
namespace {

constexpr absl::string_view kSampleLines =
#include "pipelines/torchscript/operators/testing/operator_samples.inc"
    ;

using Strings = std::vector<std::string>;

Strings known_strings(const std::string& name) {
  static const auto* const kStrings = new std::map<std::string, Strings>{
      {"mode",
       {"constant", "reflect", "replicate", "circular", "reduced", "complete",
        "r", "nearest", "bilinear"}},
      {"reduce", {"sum", "prod", "mean", "amax", "amin", "add", "multiply"}},
      {"rounding_mode", {"trunc", "floor"}},
      {"approximate", {"none", "tanh"}},
      {"equation",
       {"ij,jk->ik", "ij->ji", "ii->i", "ij", "i,j->ij", "bij,bjk->bik",
        "...ij->...ji", "...", "ij->", "i->i", "ij,ij->ij", "i", "ijk->kji"}},
      {"padding", {"same", "valid"}},
      {"indexing", {"ij", "xy"}},
      {"side", {"left", "right"}},
      {"ord", {"fro", "nuc"}},
      {"p", {"fro", "nuc"}},
      {"UPLO", {"L", "U"}},
      {"driver", {"gels", "gelsy", "gelsd", "gelss"}},
      {"interpolation", {"linear", "lower", "higher", "midpoint", "nearest"}},
      {"norm", {"backward", "ortho", "forward"}},
      {"pad_mode", {"constant", "reflect"}},
      {"padding_side", {"left", "right"}},
      {"attr", {"none", "relu", "gelu", "sigmoid"}},
      {"unary_post_op", {"none", "relu"}},
      {"binary_attr", {"add", "sum", "none"}},
      {"algorithm", {"none", "tanh"}},
      {"dtype", {"float32"}}};
  const auto found = kStrings->find(name);
  return found != kStrings->end()
             ? found->second
             : Strings{"", "a", "b c", "none", "mean", "cpu", "1"};
}

class ArgumentMaker {
 public:
  ArgumentMaker(const c10::FunctionSchema& schema, const ArgumentSeeds& seeds)
      : schema_(schema),
        seeds_(seeds),
        scene_(make_scene(schema, seeds)),
        tensor_maker_(schema, scene_) {}

  std::optional<torch::jit::Stack> make() {
    torch::jit::Stack stack;
    for (size_t i = 0; i < schema_.arguments().size(); ++i) {
      const c10::Argument& argument = schema_.arguments()[i];
      Draws draws(seeds_.arguments[i]);
      name_ = argument.name();
      tensor_maker_.begin_argument(name_, seeds_.types + i);
      count_ = argument.N();
      if (i < seeds_.given.size() && !seeds_.given[i].empty()) {
        stack.push_back(parse(seeds_.given[i], *argument.type(), &draws));
        continue;
      }
      const size_t defaults = scene_.defaults ? 85 : 25;
      if (argument.default_value() && draws.percent(defaults)) {
        stack.push_back(*argument.default_value());
        continue;
      }
      std::optional<c10::IValue> value = make(*argument.real_type(), &draws);
      if (!value) return std::nullopt;
      stack.push_back(*std::move(value));
    }
    return stack;
  }

 private:
  // An argument of operator_samples.txt.
  c10::IValue parse(const std::string& text, const c10::Type& type,
                    Draws* draws) {
    if (type.kind() == c10::TypeKind::OptionalType) {
      if (text == "None") return c10::IValue();
      return parse(text, *type.containedType(0), draws);
    }
    if (text == "None") return at::Tensor();
    if (text == "True" || text == "False") return text == "True";
    int64_t integer = 0;
    double number = 0;
    if (absl::SimpleAtoi(text, &integer)) {
      if (type.kind() == c10::TypeKind::FloatType) return double(integer);
      return integer;
    }
    if (absl::SimpleAtod(text, &number)) return number;
    if (text.front() == '[') return parse_list(text, type, draws);
    const size_t bracket = text.find('[');
    if (bracket == std::string::npos) return text;
    static const auto* const kTypes = new std::map<std::string, at::ScalarType>{
        {"b", at::kBool},          {"i8", at::kChar},
        {"u8", at::kByte},         {"i32", at::kInt},
        {"i64", at::kLong},        {"f16", at::kHalf},
        {"bf16", at::kBFloat16},   {"f32", at::kFloat},
        {"f64", at::kDouble},      {"c64", at::kComplexFloat},
        {"f8", at::kFloat8_e4m3fn}};
    const auto dtype = kTypes->find(text.substr(0, bracket));
    std::vector<int64_t> sizes;
    for (const absl::string_view size :
         absl::StrSplit(text.substr(bracket + 1, text.size() - bracket - 2),
                        ',', absl::SkipEmpty())) {
      TORCH_CHECK(absl::SimpleAtoi(size, &sizes.emplace_back()), text);
    }
    const bool is_given = dtype != kTypes->end();
    const at::ScalarType given = is_given ? dtype->second : scene_.dtype;
    at::Tensor tensor = tensor_maker_.strided(sizes, given, draws);
    if (scene_.gradients && at::isFloatingType(given)) {
      tensor.set_requires_grad(true);
    }
    return tensor;
  }

  // "[1,2]", "[T[2,3];T[2]]"
  c10::IValue parse_list(const std::string& text, const c10::Type& type,
                         Draws* draws) {
    TORCH_CHECK(type.kind() == c10::TypeKind::ListType && text.back() == ']',
                text);
    const c10::TypePtr element = type.containedType(0);
    const std::string inner = text.substr(1, text.size() - 2);
    const char separator =
        absl::StrContains(inner, ';') || absl::StrContains(inner, '[') ? ';'
                                                                       : ',';
    c10::impl::GenericList values(element->kind() == c10::TypeKind::VarType
                                      ? c10::TypePtr(c10::TensorType::get())
                                      : element);
    for (const absl::string_view item :
         absl::StrSplit(inner, separator, absl::SkipEmpty())) {
      values.push_back(parse(std::string(item), *element, draws));
    }
    return values;
  }

  std::optional<c10::IValue> make(const c10::Type& type, Draws* draws) {
    switch (type.kind()) {
      case c10::TypeKind::TensorType:
      case c10::TypeKind::AnyType:
        return tensor_maker_.tensor(draws);
      case c10::TypeKind::VarType:
        if (scene_.generic_are_tensors) return tensor_maker_.tensor(draws);
        return integer(draws);
      case c10::TypeKind::OptionalType:
        if (draws->percent(scene_.none)) return c10::IValue();
        return make(*type.containedType(0), draws);
      case c10::TypeKind::ListType:
        return list(*type.containedType(0), draws);
      case c10::TypeKind::AnyListType:
        return tensors(draws);
      case c10::TypeKind::TupleType:
        return tuple(type, draws);
      case c10::TypeKind::DictType:
        return dict(type, draws);
      case c10::TypeKind::IntType:
      case c10::TypeKind::SymIntType:
        return integer(draws);
      case c10::TypeKind::FloatType:
        return draws->one_of<double>({0.5, 0.0, 1.0, 2.0, 1e-5, -1.0});
      case c10::TypeKind::ComplexType:
        return c10::complex<double>(1.0, 0.5);
      case c10::TypeKind::NumberType:
        return number(draws);
      case c10::TypeKind::BoolType:
      case c10::TypeKind::SymBoolType:
        return draws->percent(50);
      case c10::TypeKind::StringType:
        return draws->one_of(known_strings(name_));
      case c10::TypeKind::DeviceObjType:
        return c10::Device(at::kCPU);
      case c10::TypeKind::ScalarTypeType:
        return static_cast<int64_t>(
            draws->percent(50)
                ? scene_.dtype
                : draws->one_of<at::ScalarType>(
                      {at::kFloat, at::kLong, at::kBool, at::kDouble, at::kHalf,
                       at::kBFloat16, at::kComplexFloat, at::kQUInt8,
                       at::kQInt8, at::kInt}));
      case c10::TypeKind::LayoutType:
        return static_cast<int64_t>(draws->one_of<at::Layout>(
            {at::kStrided, scene_.layout, at::kSparse, at::kSparseCsr}));
      case c10::TypeKind::MemoryFormatType:
        return static_cast<int64_t>(draws->one_of<at::MemoryFormat>(
            {at::MemoryFormat::Contiguous, at::MemoryFormat::Preserve,
             at::MemoryFormat::ChannelsLast}));
      case c10::TypeKind::NoneType:
        return c10::IValue();
      default:
        return std::nullopt;
    }
  }

  c10::IValue integer(Draws* draws) {
    if (absl::StartsWith(name_, "dim") || name_ == "axis") {
      return draws->one_of<int64_t>({0, 0, 1, 1, -1, -1, 2, -2});
    }
    return draws->one_of<int64_t>(
        {1, 1, 1, 1, 0, 0, 2, 2, 2, -1, 3, scene_.size});
  }

  c10::IValue number(Draws* draws) {
    switch (draws->below(6)) {
      case 0:
        return draws->one_of<double>({0.5, 0.0, 1.0, -1.5});
      case 1:
        return draws->percent(80) ? c10::IValue(2)
                                  : c10::IValue(c10::complex<double>(1, 1));
      default:
        return draws->one_of<int64_t>({0, 1, 1, 2, -1});
    }
  }

  std::vector<int64_t> integers(Draws* draws) {
    const std::vector<int64_t> all(scene_.dims, scene_.size);
    const size_t fixed = count_ ? static_cast<size_t>(*count_) : 0;
    if (absl::StrContains(name_, "size") || absl::StrContains(name_, "shape")) {
      if (fixed == 0 && draws->percent(60)) return all;
      if (fixed == 0 && draws->percent(50)) return {scene_.size};
    }
    if (name_ == "stride" && fixed == 0 && draws->percent(60)) {
      return at::empty(all).strides().vec();
    }
    if (absl::StartsWith(name_, "dim") && draws->percent(50)) {
      std::vector<int64_t> order(scene_.dims);
      for (size_t i = 0; i < order.size(); ++i) order[i] = int64_t(i);
      if (draws->percent(50)) std::reverse(order.begin(), order.end());
      return order;
    }
    const size_t length =
        fixed > 0 && draws->percent(85)
            ? fixed
            : draws->one_of<size_t>(
                  {1, 1, 2, 2, 3, 4, 0, scene_.dims, 2 * scene_.dims});
    const bool equal = draws->percent(60);
    const std::vector<int64_t> choices = {1, 1, 1, 0, 0, 2, 2, -1, scene_.size};
    const int64_t first = draws->one_of(choices);
    std::vector<int64_t> values;
    for (size_t i = 0; i < length; ++i) {
      values.push_back(equal ? first : draws->one_of(choices));
    }
    return values;
  }

  c10::IValue tensors(Draws* draws) {
    c10::List<at::Tensor> values;
    const size_t length =
        draws->percent(85) ? scene_.list_length : draws->below(4);
    for (size_t i = 0; i < length; ++i)
      values.push_back(tensor_maker_.tensor(draws));
    return values;
  }

  std::optional<c10::IValue> list(const c10::Type& element, Draws* draws) {
    switch (element.kind()) {
      case c10::TypeKind::TensorType:
      case c10::TypeKind::AnyType:
        return tensors(draws);
      case c10::TypeKind::VarType:
        if (scene_.generic_are_tensors) return tensors(draws);
        return integers(draws);
      case c10::TypeKind::IntType:
      case c10::TypeKind::SymIntType:
        return integers(draws);
      default:
        break;
    }
    c10::impl::GenericList values(
        element.kind() == c10::TypeKind::OptionalType
            ? c10::TypePtr(c10::OptionalType::ofTensor())
            : element_type(element));
    const size_t length = draws->one_of<size_t>(
        {1, 2, scene_.list_length, scene_.dims, size_t(count_.value_or(2))});
    for (size_t i = 0; i < length; ++i) {
      std::optional<c10::IValue> value = make(element, draws);
      if (!value) return std::nullopt;
      values.push_back(*std::move(value));
    }
    return values;
  }

  c10::TypePtr element_type(const c10::Type& element) const {
    switch (element.kind()) {
      case c10::TypeKind::TupleType: {
        std::vector<c10::TypePtr> inner;
        for (const c10::TypePtr& type : element.containedTypes()) {
          inner.push_back(element_type(*type));
        }
        return c10::TupleType::create(inner);
      }
      case c10::TypeKind::TensorType:
        return c10::TensorType::get();
      case c10::TypeKind::IntType:
        return c10::IntType::get();
      case c10::TypeKind::VarType:
        if (scene_.generic_are_tensors) return c10::TensorType::get();
        return c10::IntType::get();
      case c10::TypeKind::FloatType:
        return c10::FloatType::get();
      case c10::TypeKind::BoolType:
        return c10::BoolType::get();
      case c10::TypeKind::StringType:
        return c10::StringType::get();
      case c10::TypeKind::NumberType:
        return c10::NumberType::get();
      case c10::TypeKind::ComplexType:
        return c10::ComplexType::get();
      default:
        return c10::AnyType::get();
    }
  }

  std::optional<c10::IValue> tuple(const c10::Type& type, Draws* draws) {
    std::vector<c10::IValue> values;
    for (const c10::TypePtr& element : type.containedTypes()) {
      std::optional<c10::IValue> value = make(*element, draws);
      if (!value) return std::nullopt;
      values.push_back(*std::move(value));
    }
    return c10::ivalue::Tuple::create(std::move(values));
  }

  std::optional<c10::IValue> dict(const c10::Type& type, Draws* draws) {
    const c10::Type& key = *type.containedType(0);
    std::optional<c10::IValue> first = make(key, draws);
    if (!first) return std::nullopt;
    const c10::TypePtr element = element_type(*type.containedType(1));
    const bool holds_tensors = element->kind() == c10::TypeKind::TensorType;
    c10::impl::GenericDict values(element_type(key), element);
    values.insert(*first, holds_tensors
                              ? c10::IValue(tensor_maker_.tensor(draws))
                              : c10::IValue(integer(draws)));
    return values;
  }

  const c10::FunctionSchema& schema_;
  const ArgumentSeeds& seeds_;
  const Scene scene_;
  TensorMaker tensor_maker_;
  // Of the argument that is being made.
  std::string name_;
  std::optional<int32_t> count_;
};

// Samples by the key of the operator.
using Samples = std::multimap<std::string, std::vector<std::string>>;

const Samples& all_samples() {
  static const auto* const kSamples = [] {
    auto* const samples = new Samples();
    for (const absl::string_view line : absl::StrSplit(kSampleLines, '\n')) {
      std::vector<std::string> words =
          absl::StrSplit(line, ' ', absl::SkipEmpty());
      if (words.empty() || words[0] == "#") continue;
      const std::string key = words[0];
      words.erase(words.begin());
      samples->emplace(key, std::move(words));
    }
    return samples;
  }();
  return *kSamples;
}

}  // namespace

std::vector<std::vector<std::string>> argument_samples(const std::string& key) {
  std::vector<std::vector<std::string>> samples;
  const auto [begin, end] = all_samples().equal_range(key);
  for (auto sample = begin; sample != end; ++sample) {
    samples.push_back(sample->second);
  }
  return samples;
}

const std::vector<at::ScalarType>& dtypes_of_tensors() {
  static const auto* const kTypes = new std::vector<at::ScalarType>{
      at::kFloat,       at::kDouble, at::kHalf,          at::kBFloat16,
      at::kLong,        at::kInt,    at::kShort,         at::kChar,
      at::kByte,        at::kBool,   at::kComplexFloat,  at::kComplexDouble,
      at::kComplexHalf, at::kUInt16, at::kFloat8_e4m3fn, at::kFloat8_e5m2};
  return *kTypes;
}

std::optional<torch::jit::Stack> make_arguments(
    const c10::FunctionSchema& schema, const ArgumentSeeds& seeds) {
  return ArgumentMaker(schema, seeds).make();
}

}  // namespace ferry
