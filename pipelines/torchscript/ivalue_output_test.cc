#include "pipelines/torchscript/ivalue_output.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/ivalue.h>
#include <ATen/ops/scalar_tensor.h>
#include <gtest/gtest.h>
#include <torch/csrc/jit/api/module.h>

#include <string>
#include <utility>

namespace ferry {
namespace {

// Replaces ones by twos; whether there was one.
bool replace_ones(c10::IValue* value) {
  const auto is_one = [](const at::Tensor& tensor) {
    return tensor.dim() == 0 && tensor.item<float>() == 1;
  };
  IValueOutput output(value);
  if (!output.any_tensor(is_one)) return false;
  output.replace_tensors([&](const at::Tensor& tensor) {
    return is_one(tensor) ? tensor * 2 : tensor;
  });
  EXPECT_FALSE(output.any_tensor(is_one));
  return true;
}

TEST(IValueOutput, ReplacesATensor) {
  c10::IValue value = at::scalar_tensor(1);
  EXPECT_TRUE(replace_ones(&value));
  EXPECT_EQ(value.toTensor().item<float>(), 2);
  value = at::scalar_tensor(3);
  EXPECT_FALSE(replace_ones(&value));
}

TEST(IValueOutput, FindsNothingInOtherValues) {
  for (c10::IValue value : {c10::IValue(), c10::IValue(1), c10::IValue("text"),
                            c10::IValue(at::Tensor())}) {
    EXPECT_FALSE(replace_ones(&value));
  }
}

TEST(IValueOutput, MakesContainersAnew) {
  c10::Dict<std::string, at::Tensor> dict;
  dict.insert("a", at::scalar_tensor(1));
  c10::List<at::Tensor> list({at::scalar_tensor(0), at::scalar_tensor(1)});
  c10::IValue value = c10::ivalue::Tuple::create({dict, list, 7});
  EXPECT_TRUE(replace_ones(&value));
  const auto& elements = value.toTupleRef().elements();
  EXPECT_EQ(elements[0].toGenericDict().at("a").toTensor().item<float>(), 2);
  EXPECT_EQ(elements[1].toTensorVector()[1].item<float>(), 2);
  EXPECT_EQ(elements[2].toInt(), 7);
  // Others may hold them.
  EXPECT_EQ(dict.at("a").item<float>(), 1);
  EXPECT_EQ(list.get(1).item<float>(), 1);
}

TEST(IValueOutput, LeavesModulesAlone) {
  torch::jit::Module module("module");
  module.register_buffer("a", at::scalar_tensor(1));
  c10::IValue value = module._ivalue();
  EXPECT_FALSE(replace_ones(&value));
}

}  // namespace
}  // namespace ferry
