#include "pipelines/torchscript/operators/operator_facts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/jit/runtime/operator.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "pipelines/torchscript/operators/testing/forked_trials.h"
#include "pipelines/torchscript/operators/testing/operator_trials.h"

namespace ferry {
namespace {

using ::testing::Contains;
using ::testing::IsEmpty;
using ::testing::Not;

using Operators = std::vector<std::shared_ptr<torch::jit::Operator>>;

// The schema of a registered operator; of none, nothing is known.
const c10::FunctionSchema* schema_of(const std::string& key) {
  static const auto* const kOperators = new Operators(all_operators());
  const auto found =
      std::lower_bound(kOperators->begin(), kOperators->end(), key,
                       [](const auto& op, const std::string& wanted) {
                         return operator_key(op->schema()) < wanted;
                       });
  if (found == kOperators->end() || operator_key((*found)->schema()) != key) {
    return nullptr;
  }
  return &(*found)->schema();
}

const OperatorFacts* facts_of(const std::string& key) {
  const c10::FunctionSchema* const schema = schema_of(key);
  return schema == nullptr ? nullptr : find_operator_facts(*schema);
}

// The names of the schema's arguments that the facts name.
std::vector<std::string> named(const std::string& key,
                               bool (OperatorFacts::*says)(const c10::Argument&)
                                   const) {
  std::vector<std::string> names;
  const OperatorFacts* const facts = facts_of(key);
  if (facts == nullptr) return {"nothing is known of it"};
  for (const c10::Argument& argument : schema_of(key)->arguments()) {
    if ((facts->*says)(argument)) names.push_back(argument.name());
  }
  return names;
}

// What calls have shown and the table does not say.
std::string contradictions(const torch::jit::Operator& op,
                           const TrialRecord& record) {
  const c10::FunctionSchema& schema = op.schema();
  const OperatorFacts* const facts = find_operator_facts(schema);
  if (facts == nullptr || record.successes == 0) return "";
  std::string found;
  const auto add = [&](const char* what, const std::string& name) {
    absl::StrAppend(&found, operator_key(schema), " ", what, " ", name, "; ");
  };
  for (const std::string& name : undeclared_returns(schema, record)) {
    const auto index = schema.argumentIndexWithName(name);
    if (!facts->may_return(schema.arguments()[*index])) add("returns", name);
  }
  for (const std::string& name : undeclared_writes(schema, record)) {
    const auto index = schema.argumentIndexWithName(name);
    if (!facts->may_write(schema.arguments()[*index])) add("writes", name);
  }
  if (record.kept) add("holds on to", "an argument");
  if (record.opaque) add("returns", "an object");
  return found;
}

TEST(OperatorFactsTest, EveryOperatorOfLibTorchIsInTheTable) {
  std::vector<std::string> registered;
  for (const auto& op : all_operators()) {
    registered.push_back(operator_key(op->schema()));
  }
  const std::vector<std::string> listed = operators_of_the_table();
  std::vector<std::string> strange;
  std::set_difference(registered.begin(), registered.end(), listed.begin(),
                      listed.end(), std::back_inserter(strange));
  EXPECT_THAT(strange, IsEmpty()) << "LibTorch has them and the table has not";
  strange.clear();
  std::set_difference(listed.begin(), listed.end(), registered.begin(),
                      registered.end(), std::back_inserter(strange));
  EXPECT_THAT(strange, IsEmpty()) << "the table has them and LibTorch has not";
}

// Every operator is called again, with a part of the arguments that made the
// table.
class OperatorCallsTest : public ::testing::TestWithParam<size_t> {
 protected:
  static constexpr size_t kParts = 8;
};

TEST_P(OperatorCallsTest, ShowWhatTheTableSays) {
  const Operators all = all_operators();
  Operators part;
  for (size_t i = GetParam(); i < all.size(); i += kParts) {
    part.push_back(all[i]);
  }
  const auto records = run_forked_trials(part, kFewTrials, 1);
  ASSERT_TRUE(records.ok()) << records.status();
  size_t known = 0;
  size_t called = 0;
  for (size_t i = 0; i < part.size(); ++i) {
    if (find_operator_facts(part[i]->schema()) == nullptr) continue;
    ++known;
    called += (*records)[i].successes > 0;
    const std::string found = contradictions(*part[i], (*records)[i]);
    if (found.empty()) continue;
    // Another operator may have written to memory that is not its own.
    const auto alone = run_forked_trials({part[i]}, kFewTrials, 1);
    ASSERT_TRUE(alone.ok()) << alone.status();
    EXPECT_EQ(contradictions(*part[i], alone->front()), "");
  }
  EXPECT_GT(known, part.size() / 2);
  EXPECT_GT(called, known * 8 / 10);
}

INSTANTIATE_TEST_SUITE_P(Parts, OperatorCallsTest,
                         ::testing::Range<size_t>(0, 8));

TEST(OperatorFactsTest, OperatorsThatReturnWhatTheirSchemasDoNotSay) {
  const std::vector<std::pair<std::string, std::string>> examples = {
      {"aten::_unsafe_view", "self"},
      {"aten::add.t", "a"},
      {"aten::add.t", "b"},
      {"aten::align_tensors", "tensors"},
      {"aten::alpha_dropout", "input"},
      {"aten::atleast_1d", "self"},
      {"aten::atleast_2d.Sequence", "tensors"},
      {"aten::broadcast_tensors", "tensors"},
      {"aten::cartesian_prod", "tensors"},
      {"aten::conj_physical", "self"},
      {"aten::cumprod_backward", "grad"},
      {"aten::diff", "self"},
      {"aten::dropout", "input"},
      {"aten::einsum", "tensors"},
      {"aten::lift", "self"},
      {"aten::list.t", "l"},
      {"aten::meshgrid", "tensors"},
      {"aten::meshgrid.indexing", "tensors"},
      {"aten::sum_to_size", "self"},
      {"aten::to_dense", "self"},
      {"aten::type_as", "self"},
      {"aten::unsafe_chunk", "self"},
      {"aten::unsafe_split.Tensor", "self"},
      {"prim::unchecked_cast", "x"}};
  for (const auto& [key, argument] : examples) {
    EXPECT_THAT(named(key, &OperatorFacts::may_return), Contains(argument))
        << key;
    EXPECT_FALSE(facts_of(key)->returns_fresh_memory()) << key;
  }
}

TEST(OperatorFactsTest, OperatorsThatWriteWhatTheirSchemasDoNotSay) {
  for (const std::string key :
       {"aten::batch_norm", "aten::instance_norm", "aten::native_batch_norm",
        "aten::_batch_norm_impl_index"}) {
    for (const std::string argument : {"running_mean", "running_var"}) {
      EXPECT_THAT(named(key, &OperatorFacts::may_write), Contains(argument))
          << key;
    }
    EXPECT_THAT(named(key, &OperatorFacts::may_write), Not(Contains("weight")))
        << key;
    EXPECT_FALSE(facts_of(key)->leaves_arguments_alone()) << key;
  }
}

TEST(OperatorFactsTest, OperatorsThatNothingIsKnownOf) {
  for (const std::string key :
       {"aten::backward", "aten::grad", "aten::cudnn_convolution",
        "aten::requires_grad_", "prepacked::linear_clamp_prepack",
        "quantized::linear_prepack", "aten::to_mkldnn"}) {
    EXPECT_NE(schema_of(key), nullptr) << key;
    EXPECT_EQ(facts_of(key), nullptr) << key;
  }
  const c10::FunctionSchema other("other::add", "", {}, {});
  EXPECT_EQ(find_operator_facts(other), nullptr);
}

// Those of traced diffusers and transformers models, and their like: their
// weights could not be streamed otherwise.
TEST(OperatorFactsTest, OperatorsOfModelsAreKnown) {
  const std::vector<std::string> fresh = {"aten::Bool.Tensor",
                                          "aten::Float.Scalar",
                                          "aten::Float.Tensor",
                                          "aten::Int.Tensor",
                                          "aten::ScalarImplicit",
                                          "aten::__and__.Tensor",
                                          "aten::__getitem__.Dict_str",
                                          "aten::__getitem__.t",
                                          "aten::_convolution",
                                          "aten::_to_copy",
                                          "aten::_upsample_nearest_exact2d.vec",
                                          "aten::_upsample_nearest_exact3d.vec",
                                          "aten::abs",
                                          "aten::adaptive_avg_pool2d",
                                          "aten::add.Scalar",
                                          "aten::add.Tensor",
                                          "aten::add.int",
                                          "aten::add_.Tensor",
                                          "aten::addcmul",
                                          "aten::addmm",
                                          "aten::all",
                                          "aten::amax",
                                          "aten::any",
                                          "aten::arange",
                                          "aten::arange.start",
                                          "aten::arange.start_step",
                                          "aten::argmax",
                                          "aten::argsort",
                                          "aten::avg_pool2d",
                                          "aten::baddbmm",
                                          "aten::bernoulli",
                                          "aten::bitwise_and.Tensor",
                                          "aten::bmm",
                                          "aten::bucketize.Tensor",
                                          "aten::cat",
                                          "aten::cdist",
                                          "aten::chunk",
                                          "aten::clamp",
                                          "aten::clamp_min",
                                          "aten::clone",
                                          "aten::complex",
                                          "aten::contiguous",
                                          "aten::conv1d",
                                          "aten::conv2d",
                                          "aten::conv2d.padding",
                                          "aten::conv3d",
                                          "aten::conv_transpose2d.input",
                                          "aten::copy_",
                                          "aten::cos",
                                          "aten::cross_entropy_loss",
                                          "aten::cumprod",
                                          "aten::cumsum",
                                          "aten::dim",
                                          "aten::div.Scalar",
                                          "aten::div.Tensor",
                                          "aten::div_.Tensor",
                                          "aten::elu",
                                          "aten::embedding",
                                          "aten::empty.memory_format",
                                          "aten::empty_like",
                                          "aten::eq.Scalar",
                                          "aten::eq.int",
                                          "aten::erf",
                                          "aten::exp",
                                          "aten::expand",
                                          "aten::expand_as",
                                          "aten::fft_fftn",
                                          "aten::fft_ifftn",
                                          "aten::flatten.using_ints",
                                          "aten::flip",
                                          "aten::floor",
                                          "aten::floor_divide",
                                          "aten::floor_divide.Scalar",
                                          "aten::floordiv.int",
                                          "aten::frexp.Tensor",
                                          "aten::full",
                                          "aten::full_like",
                                          "aten::gather",
                                          "aten::ge.Scalar",
                                          "aten::gelu",
                                          "aten::glu",
                                          "aten::grid_sampler",
                                          "aten::group_norm",
                                          "aten::gru.input",
                                          "aten::gt.Scalar",
                                          "aten::hardswish",
                                          "aten::im2col",
                                          "aten::index.Tensor",
                                          "aten::index_add",
                                          "aten::index_select",
                                          "aten::is_floating_point",
                                          "aten::isnan",
                                          "aten::item",
                                          "aten::layer_norm",
                                          "aten::le.Tensor",
                                          "aten::leaky_relu",
                                          "aten::len.Tensor",
                                          "aten::lerp.Tensor",
                                          "aten::linalg_vector_norm",
                                          "aten::linear",
                                          "aten::linspace",
                                          "aten::log",
                                          "aten::log_softmax.int",
                                          "aten::logical_and",
                                          "aten::logical_not",
                                          "aten::lstm.input",
                                          "aten::lt.Scalar",
                                          "aten::lt.Tensor",
                                          "aten::masked_fill.Scalar",
                                          "aten::masked_fill.Tensor",
                                          "aten::matmul",
                                          "aten::max",
                                          "aten::max.dim",
                                          "aten::max_pool2d",
                                          "aten::maximum",
                                          "aten::mean.dim",
                                          "aten::min.other",
                                          "aten::minimum",
                                          "aten::mish",
                                          "aten::mm",
                                          "aten::mse_loss",
                                          "aten::mul.Scalar",
                                          "aten::mul.Tensor",
                                          "aten::mul.int",
                                          "aten::multinomial",
                                          "aten::nan_to_num",
                                          "aten::ne.Scalar",
                                          "aten::neg",
                                          "aten::new_full",
                                          "aten::new_ones",
                                          "aten::new_zeros",
                                          "aten::norm.ScalarOpt_dim",
                                          "aten::numel",
                                          "aten::one_hot",
                                          "aten::ones",
                                          "aten::ones_like",
                                          "aten::outer",
                                          "aten::permute",
                                          "aten::pixel_shuffle",
                                          "aten::pixel_unshuffle",
                                          "aten::polar",
                                          "aten::pow.Scalar",
                                          "aten::pow.Tensor_Scalar",
                                          "aten::pow.Tensor_Tensor",
                                          "aten::prelu",
                                          "aten::rand",
                                          "aten::randn",
                                          "aten::randn_like",
                                          "aten::reciprocal",
                                          "aten::relu",
                                          "aten::remainder.Scalar",
                                          "aten::repeat",
                                          "aten::repeat_interleave.self_int",
                                          "aten::reshape",
                                          "aten::rms_norm",
                                          "aten::roll",
                                          "aten::round",
                                          "aten::rsqrt",
                                          "aten::rsub.Scalar",
                                          "aten::scaled_dot_product_attention",
                                          "aten::scatter.src",
                                          "aten::scatter_add",
                                          "aten::searchsorted.Tensor",
                                          "aten::select.int",
                                          "aten::sigmoid",
                                          "aten::silu",
                                          "aten::sin",
                                          "aten::size",
                                          "aten::size.int",
                                          "aten::slice.Tensor",
                                          "aten::softmax.int",
                                          "aten::softplus",
                                          "aten::sort",
                                          "aten::split_with_sizes",
                                          "aten::sqrt",
                                          "aten::squeeze.dim",
                                          "aten::stack",
                                          "aten::std.correction",
                                          "aten::sub.Scalar",
                                          "aten::sub.Tensor",
                                          "aten::sub.int",
                                          "aten::sum.dim_IntList",
                                          "aten::tanh",
                                          "aten::tensor",
                                          "aten::tensor.int",
                                          "aten::tensordot",
                                          "aten::tile",
                                          "aten::to.device",
                                          "aten::to.dtype",
                                          "aten::to.dtype_layout",
                                          "aten::topk",
                                          "aten::transpose.int",
                                          "aten::tril",
                                          "aten::triu",
                                          "aten::unbind.int",
                                          "aten::unflatten.int",
                                          "aten::unfold_copy",
                                          "aten::unique_consecutive",
                                          "aten::unsqueeze",
                                          "aten::upsample_bicubic2d.vec",
                                          "aten::upsample_bilinear2d.vec",
                                          "aten::upsample_nearest2d",
                                          "aten::upsample_nearest2d.vec",
                                          "aten::upsample_nearest3d.vec",
                                          "aten::var.correction",
                                          "aten::view",
                                          "aten::view_as_complex",
                                          "aten::view_as_real",
                                          "aten::where.ScalarOther",
                                          "aten::where.self",
                                          "aten::zeros",
                                          "aten::zeros_like",
                                          "prim::NumToTensor.Scalar",
                                          "prim::device",
                                          "prim::dtype",
                                          "prim::max.int"};
  for (const std::string& key : fresh) {
    const OperatorFacts* const facts = facts_of(key);
    ASSERT_NE(facts, nullptr) << key;
    EXPECT_TRUE(facts->leaves_arguments_alone()) << key;
    EXPECT_TRUE(facts->returns_fresh_memory())
        << key << absl::StrJoin(named(key, &OperatorFacts::may_return), ",");
  }
}

}  // namespace
}  // namespace ferry
