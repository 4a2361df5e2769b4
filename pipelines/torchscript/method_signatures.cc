#include "pipelines/torchscript/method_signatures.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace ferry {
namespace {

struct Parameter {
  std::string name;
  c10::TypePtr type;
};

struct Signature {
  std::string method;
  std::vector<Parameter> parameters;
  c10::TypePtr result;
};

c10::TypePtr tensor_dict() {
  return c10::DictType::create(c10::StringType::get(), c10::TensorType::get());
}

std::vector<Signature> expected_signatures(
    const std::vector<TokenizerInputs>& tokenizers) {
  const c10::TypePtr tensor = c10::TensorType::get();
  const c10::TypePtr integer = c10::IntType::get();
  Signature encode_prompt{"encode_prompt", {}, tensor_dict()};
  for (size_t i = 0; i < tokenizers.size(); ++i) {
    const std::string suffix = i == 0 ? "" : absl::StrCat("_", i + 1);
    encode_prompt.parameters.push_back({"input_ids" + suffix, tensor});
    if (tokenizers[i].attention_mask) {
      encode_prompt.parameters.push_back({"attention_mask" + suffix, tensor});
    }
  }
  return {encode_prompt,
          {"denoise",
           {{"latents", tensor},
            {"timestep", tensor},
            {"conditioning", tensor_dict()}},
           tensor},
          {"decode", {{"latents", tensor}}, tensor},
          {"latent_shape",
           {{"batch", integer},
            {"height", integer},
            {"width", integer},
            {"frames", integer}},
           c10::ListType::ofInts()}};
}

std::string to_string(const Signature& signature) {
  const std::string parameters = absl::StrJoin(
      signature.parameters, ", ",
      [](std::string* text, const Parameter& parameter) {
        absl::StrAppend(text, parameter.name, ": ", parameter.type->repr_str());
      });
  return absl::StrCat(signature.method, "(", parameters, ") -> ",
                      signature.result->repr_str());
}

// Arguments beyond the expected ones are fine when they have defaults.
bool matches(const c10::FunctionSchema& schema, const Signature& expected) {
  const auto& arguments = schema.arguments();
  // The first argument is self.
  if (arguments.size() < expected.parameters.size() + 1) return false;
  for (size_t i = 0; i < expected.parameters.size(); ++i) {
    if (!expected.parameters[i].type->isSubtypeOf(*arguments[i + 1].type())) {
      return false;
    }
  }
  for (size_t i = expected.parameters.size() + 1; i < arguments.size(); ++i) {
    if (!arguments[i].default_value()) return false;
  }
  return schema.returns().size() == 1 &&
         schema.returns()[0].type()->isSubtypeOf(*expected.result);
}

}  // namespace

absl::Status check_method_signatures(
    const torch::jit::Module& root,
    const std::vector<TokenizerInputs>& tokenizers) {
  std::vector<std::string> violations;
  for (const Signature& expected : expected_signatures(tokenizers)) {
    const auto method = root.find_method(expected.method);
    if (!method) {
      violations.push_back(absl::StrCat("method ", expected.method,
                                        " is missing; expected ",
                                        to_string(expected)));
    } else if (!matches(method->function().getSchema(), expected)) {
      violations.push_back(absl::StrCat("method ", expected.method,
                                        " has another signature; expected ",
                                        to_string(expected)));
    }
  }
  if (violations.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrJoin(violations, "; "));
}

}  // namespace ferry
