#include "tests/offload/program_operators.h"

namespace ferry {
namespace {

using Operators = std::vector<TensorOperator>;

}  // namespace

const Operators& declared_views() {
  static const auto* const kViews = new Operators{
      {"M", '=', "torch.t($0)"},
      {"M", '=', "torch.transpose($0, 0, 1)"},
      {"M", '=', "torch.permute($0, [1, 0])"},
      {"M", '=', "torch.movedim($0, 0, 1)"},
      {"M", '=', "torch.swapaxes($0, 0, 1)"},
      {"M", '=', "torch.swapdims($0, 1, 0)"},
      {"M", '=', "torch.numpy_T($0)"},
      {"M", '=', "torch.mT($0)"},
      {"SVMXA", '=', "torch.alias($0)"},
      {"SVMXA", '=', "torch.detach($0)"},
      {"SVMXA", '=', "torch.positive($0)"},
      {"SVMXA", '=', "torch.contiguous($0)"},
      {"SVMXA", '=', "torch.view_as($0, $0)"},
      {"SVMXA", '=', "torch.reshape_as($0, $0)"},
      {"SVMXA", 'A', "torch.flatten($0)"},
      {"SVMXA", 'A', "torch.ravel($0)"},
      {"SVMXA", 'A', "torch.unsqueeze($0, 0)"},
      {"SVMXA", 'A', "torch.reshape($0, [-1, 1])"},
      {"VMX", '=', "torch.slice($0, 0, 0, 9223372036854775807, 1)"},
      {"V", 'A', "torch.slice($0, 0, 1, 7, 2)"},
      {"M", 'X', "torch.slice($0, 0, 2, 4, 1)"},
      {"MX", 'V', "torch.select($0, 0, $i)"},
      {"V", 'S', "torch.select($0, 0, $i)"},
      {"MX", 'V', "($0)[$i]"},
      {"V", 'S', "($0)[$i]"},
      {"M", 'X', "torch.narrow($0, 0, 3, 2)"},
      {"M", 'A', "torch.narrow($0, 1, 2, 4)"},
      {"V", 'A', "torch.narrow($0, 0, 2, 4)"},
      {"M", 'V', "torch.diagonal($0)"},
      {"M", 'A', "torch.unfold($0, 0, 4, 4)"},
      {"V", 'A', "torch.unfold($0, 0, 2, 2)"},
      {"M", 'A', "torch.unflatten($0, 0, [2, 4])"},
      {"M", 'A', "torch.chunk($0, 2)[$i]"},
      {"M", 'A', "torch.split($0, 4)[$i]"},
      {"M", 'A', "torch.split_with_sizes($0, [3, 5])[$i]"},
      {"M", 'A', "torch.tensor_split($0, 2)[$i]"},
      {"M", 'A', "torch.hsplit($0, 2)[$i]"},
      {"MX", 'V', "torch.unbind($0)[$i]"},
      {"V", 'S', "torch.unbind($0)[$i]"},
      {"V", '=', "torch.squeeze(torch.unsqueeze($0, 1))"},
      {"M", 'A', "torch.as_strided($0, [2, 2], [2, 1], 0)"},
      {"VMX", 'A', "torch.view(torch.contiguous($0), [-1, 4])"},
      {"SVMXA", '=', "torch.to($0, $0, False, False)"},
  };
  return *kViews;
}

const Operators& overlapping_views() {
  static const auto* const kViews = new Operators{
      {"V", 'M', "torch.expand($0, [8, 8])"},
      {"V", 'X', "torch.expand_as($0, x)"},
      {"S", 'V', "torch.expand($0, [8])"},
      {"V", 'X', "torch.broadcast_to($0, [2, 8])"},
  };
  return *kViews;
}

const Operators& silent_views() {
  static const auto* const kViews = new Operators{
      {"M", '=', "torch.einsum(\"ij->ji\", [$0])"},
      {"V", '=', "torch.einsum(\"i->i\", [$0])"},
      {"M", 'V', "torch.einsum(\"ii->i\", [$0])"},
      {"M", '=', "torch.sum_to_size($0, [8, 8])"},
      {"V", '=', "torch.sum_to_size($0, [8])"},
      {"SVMXA", '=', "torch.to_dense($0)"},
      {"VMX", 'A', "torch._unsafe_view(torch.contiguous($0), [-1, 2])"},
      {"V", '=', "torch.cartesian_prod([$0])"},
      {"VMXA", '=', "torch.align_tensors([$0, $0])[$i]"},
      {"SVMXA", '=', "torch.lift($0)"},
      {"S", '=', "torch.cumprod_backward($0, $0, 0, $0)"},
      {"M", '=', "torch.chain_matmul([$0])"},
      {"SVMXA", '=', "torch.dropout($0, 0.5, False)"},
      {"SVMXA", '=', "torch.alpha_dropout($0, 0.5, False)"},
      {"SVMXA", '=', "torch.feature_dropout($0, 0.5, False)"},
      {"SVMXA", '=', "torch.feature_alpha_dropout($0, 0.5, False)"},
      {"VMX", '=', "torch.atleast_1d($0)"},
      {"MX", '=', "torch.atleast_2d($0)"},
      {"V", 'A', "torch.atleast_2d($0)"},
      {"SVMX", 'A', "torch.atleast_3d($0)"},
      {"VMX", '=', "torch.broadcast_tensors([$0, $0])[$i]"},
      {"VMX", '=', "torch.pad($0, [0, 0])"},
      {"SVMXA", '=', "torch.type_as($0, $0)"},
      {"SVMXA", '=', "torch.conj_physical($0)"},
      {"SVMXA", '=', "torch._cast_Float($0, False)"},
      {"M", 'A', "torch.unsafe_chunk($0, 2)[$i]"},
      {"M", 'A', "torch.unsafe_split($0, 4)[$i]"},
      {"M", 'A', "torch.unsafe_split_with_sizes($0, [3, 5])[$i]"},
  };
  return *kViews;
}

const Operators& fresh_operators() {
  static const auto* const kFresh = new Operators{
      {"SVMXA", '=', "torch.abs($0)"},
      {"SVMXA", '=', "torch.atan($0)"},
      {"SVMXA", '=', "torch.asinh($0)"},
      {"SVMXA", '=', "torch.sin($0)"},
      {"SVMXA", '=', "torch.cos($0)"},
      {"SVMXA", '=', "torch.tanh($0)"},
      {"SVMXA", '=', "torch.sigmoid($0)"},
      {"SVMXA", '=', "torch.relu($0)"},
      {"SVMXA", '=', "torch.relu6($0)"},
      {"SVMXA", '=', "torch.gelu($0)"},
      {"SVMXA", '=', "torch.silu($0)"},
      {"SVMXA", '=', "torch.mish($0)"},
      {"SVMXA", '=', "torch.softplus($0)"},
      {"SVMXA", '=', "torch.selu($0)"},
      {"SVMXA", '=', "torch.celu($0)"},
      {"SVMXA", '=', "torch.elu($0)"},
      {"SVMXA", '=', "torch.hardtanh($0)"},
      {"SVMXA", '=', "torch.hardswish($0)"},
      {"SVMXA", '=', "torch.hardsigmoid($0)"},
      {"SVMXA", '=', "torch.softshrink($0, 0.1)"},
      {"SVMXA", '=', "torch.leaky_relu($0, 0.1)"},
      {"SVMXA", '=', "torch.log_sigmoid($0)"},
      {"SVMXA", '=', "torch.erf($0)"},
      {"SVMXA", '=', "torch.sinc($0)"},
      {"SVMXA", '=', "torch.neg($0)"},
      {"SVMXA", '=', "torch.frac($0)"},
      {"SVMXA", '=', "torch.special_ndtr($0)"},
      {"SVMXA", '=', "torch.special_i0e($0)"},
      {"SVMXA", '=', "torch.clone($0)"},
      {"SVMXA", '=', "torch.mul($0, 0.5)"},
      {"SVMXA", '=', "torch.sub($0, 0.25)"},
      {"SVMXA", '=', "torch.div($0, 3.)"},
      {"SVMXA", '=', "torch.rsub($0, 1.)"},
      {"SVMXA", '=', "torch.clamp($0, -0.5, 0.5)"},
      {"SVMXA", '=', "torch.maximum($0, torch.neg($0))"},
      {"SVMXA", '=', "torch.where(torch.gt($0, 0.), $0, torch.mul($0, 0.1))"},
      {"SVMXA", '=', "torch.lerp($0, torch.cos($0), 0.5)"},
      {"SVMXA", '=', "torch.addcmul($0, $0, $0, value=0.1)"},
      {"SVMXA", 'S', "torch.sum($0)"},
      {"SVMXA", 'S', "torch.mean($0)"},
      {"SVMXA", 'S', "torch.amax($0)"},
      {"SVMXA", 'S', "torch.linalg_vector_norm($0)"},
      {"MX", 'V', "torch.sum($0, [0])"},
      {"MX", 'V', "torch.mean($0, [0])"},
      {"VMX", '=', "torch.softmax($0, 0)"},
      {"VMX", '=', "torch.cumsum($0, 0)"},
      {"VMX", '=', "torch.roll($0, [1], [0])"},
      {"VMX", '=', "torch.flip($0, [0])"},
      {"VMX", '=', "torch.layer_norm($0, [8])"},
      {"VMX", '=', "torch.rms_norm($0, [8])"},
      {"M", '=', "torch.tril($0)"},
      {"M", '=', "torch.triu($0)"},
      {"M", '=', "torch.matmul($0, torch.t($0))"},
      {"M", '=', "torch.addmm($0, $0, $0, alpha=0.1)"},
      {"M", 'X', "torch.linear(x, $0)"},
      {"M", 'X', "torch.matmul(x, $0)"},
      {"M", 'X', "torch.einsum(\"bi,ij->bj\", [x, $0])"},
      {"M", 'X', "torch.embedding($0, torch.tensor([1, 3]))"},
      {"M", 'X', "torch.index_select($0, 0, torch.tensor([6, 1]))"},
      {"M", 'V', "torch.diag($0)"},
      {"V", 'M', "torch.outer($0, $0)"},
      {"V", 'M', "torch.diag_embed($0)"},
      {"VMX", 'A', "torch.cat([$0, $0])"},
      {"SVMX", 'A', "torch.stack([$0, $0])"},
      {"V", 'X', "torch.stack([$0, torch.neg($0)])"},
      {"V", 'X', "torch.layer_norm(x, [8], $0)"},
      {"V", 'X', "torch.group_norm(x, 2, $0)"},
      {"X", 'M', "torch.matmul(torch.t($0), $0)"},
  };
  return *kFresh;
}

const Operators& random_operators() {
  static const auto* const kRandom = new Operators{
      {"SVMXA", '=', "torch.randn_like($0)"},
      {"SVMXA", '=', "torch.rand_like($0)"},
      {"SVMXA", '=', "torch.dropout($0, 0.3, True)"},
      {"SVMXA", '=', "torch.bernoulli(torch.sigmoid($0))"},
      {"SVMXA", '=', "torch.normal($0, 0.1)"},
      {"MX", '=', "torch.feature_dropout($0, 0.3, True)"},
      {"VMX", '=', "torch.rrelu($0, 0.1, 0.3, True)"},
  };
  return *kRandom;
}

const Operators& declared_writers() {
  static const auto* const kWriters = new Operators{
      {"SVMXA", '=', "torch.add_($0, 0.01)"},
      {"SVMXA", '=', "torch.sub_($0, 0.02)"},
      {"SVMXA", '=', "torch.mul_($0, 0.9)"},
      {"SVMXA", '=', "torch.div_($0, 1.25)"},
      {"SVMXA", '=', "torch.neg_($0)"},
      {"SVMXA", '=', "torch.abs_($0)"},
      {"SVMXA", '=', "torch.sin_($0)"},
      {"SVMXA", '=', "torch.cos_($0)"},
      {"SVMXA", '=', "torch.tanh_($0)"},
      {"SVMXA", '=', "torch.relu_($0)"},
      {"SVMXA", '=', "torch.sigmoid_($0)"},
      {"SVMXA", '=', "torch.clamp_($0, -0.4, 0.4)"},
      {"SVMXA", '=', "torch.fill_($0, 0.3)"},
      {"SVMXA", '=', "torch.zero_($0)"},
      {"SVMXA", '=', "torch.copy_($0, torch.mul(torch.mean(x), 0.2))"},
      {"SVMXA", '=', "torch.masked_fill_($0, torch.gt($0, 0.2), 0.1)"},
      {"SVMXA", '=', "torch.lerp_($0, torch.sin($0), 0.5)"},
      {"SVMXA", '=', "torch.addcmul_($0, $0, torch.cos($0), value=-0.1)"},
      {"SVMXA", '=', "torch.add($0, $0, alpha=-0.1, out=$0)"},
      {"SVMXA", '=', "torch.cos($0, out=$0)"},
      {"V", '=', "torch.copy_($0, torch.mean(x, [0]))"},
      {"V", 'S', "torch.copy_(($0)[$i], torch.mean(x))"},
      {"MX", 'V', "torch.copy_(($0)[$i], torch.mean(x))"},
      {"VMX", '=', "torch.index_fill_($0, 0, torch.tensor([1]), 0.2)"},
      {"M", '=', "torch.fill_diagonal_($0, 0.1)"},
      {"M", '=', "torch.triu_($0)"},
  };
  return *kWriters;
}

const Operators& silent_writers() {
  static const auto* const kWriters = new Operators{
      {"V", 'X',
       "torch.batch_norm(x, None, None, $0, torch.ones([8]), True, 0.1, "
       "1e-05, False)"},
      {"V", 'X',
       "torch.batch_norm(x, None, None, torch.zeros([8]), $0, True, 0.2, "
       "1e-05, False)"},
      {"V", 'X',
       "torch.t(torch.instance_norm(torch.unsqueeze(torch.t(x), 0), None, "
       "None, $0, torch.ones([8]), True, 0.1, 1e-05, False)[0])"},
      {"V", 'X',
       "torch.native_batch_norm(x, None, None, $0, torch.ones([8]), True, "
       "0.1, 1e-05)[0]"},
  };
  return *kWriters;
}

}  // namespace ferry
