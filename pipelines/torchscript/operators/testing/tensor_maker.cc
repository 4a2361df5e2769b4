#include "pipelines/torchscript/operators/testing/tensor_maker.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <set>
#include <string>

#include "absl/strings/match.h"

namespace ferry {
namespace {

bool holds_indices(const std::string& name) {
  static const auto* const kNames =
      new std::set<std::string>{"index",
                                "indices",
                                "idx",
                                "offsets",
                                "offset2bag",
                                "bag_size",
                                "lengths",
                                "batch_sizes",
                                "crow_indices",
                                "col_indices",
                                "ccol_indices",
                                "row_indices",
                                "repeats",
                                "input_lengths",
                                "target_lengths",
                                "targets",
                                "pivots",
                                "LU_pivots",
                                "seqlen_k",
                                "cum_seq_q",
                                "cum_seq_k",
                                "cu_seqlens_q",
                                "cu_seqlens_k",
                                "max_indices",
                                "ind",
                                "perm",
                                "tokens",
                                "maximum_indices"};
  return kNames->count(name) > 0;
}

bool is_mask(const std::string& name) {
  return absl::StrContains(name, "mask") || name == "condition" ||
         name == "cond";
}

// Statistics, biases and the like have one dimension.
bool is_vector(const std::string& name, const std::string& op) {
  static const auto* const kNames = new std::set<std::string>{
      "bias",        "running_mean",  "running_var",    "mean",
      "var",         "invstd",        "save_mean",      "save_invstd",
      "rstd",        "scale",         "zero_point",     "scales",
      "zero_points", "save_var",      "bias_defined",   "running_std",
      "vec",         "vec1",          "vec2",           "lengths",
      "zero_point_", "input_lengths", "target_lengths", "batch_sizes"};
  return kNames->count(name) > 0 ||
         (name == "weight" && absl::StrContains(op, "norm"));
}

}  // namespace

Scene make_scene(const c10::FunctionSchema& schema,
                 const ArgumentSeeds& seeds) {
  Scene scene;
  Draws types(seeds.types);
  scene.dtype = types.one_of<at::ScalarType>(
      {at::kFloat, at::kFloat, at::kFloat, at::kFloat, at::kFloat, at::kFloat,
       at::kDouble, at::kLong, at::kLong, at::kLong, at::kBool, at::kInt,
       at::kComplexFloat, at::kComplexFloat, at::kHalf, at::kBFloat16,
       at::kByte, at::kChar, at::kFloat8_e4m3fn});
  if (seeds.dtype) scene.dtype = *seeds.dtype;
  scene.mixed_types = !seeds.dtype && types.percent(15);
  scene.values = types.below(5);
  Draws shapes(seeds.shapes);
  scene.dims = shapes.one_of<size_t>({0, 1, 1, 2, 2, 2, 3, 3, 4, 4, 5});
  scene.size = shapes.one_of<int64_t>({2, 2, 2, 2, 2, 2, 1, 3, 4, 8, 0});
  scene.ragged = shapes.percent(20);
  scene.contiguous = shapes.percent(30);
  scene.list_length = shapes.one_of<size_t>({1, 2, 2, 3, 0});
  scene.defaults = shapes.percent(50);
  scene.none = shapes.one_of<size_t>({0, 20, 40, 80, 100});
  scene.generic_are_tensors = shapes.percent(75);
  scene.gradients = seeds.gradients;
  // Indices of given tensors stay below 2.
  if (!seeds.given.empty()) scene.size = 2;
  const std::string& name = schema.name();
  const bool unusual =
      absl::StrContains(name, "sparse") || absl::StrContains(name, "coo") ||
      absl::StrContains(name, "dense") || absl::StrContains(name, "quant") ||
      absl::StrContains(name, "values") || absl::StrContains(name, "indices") ||
      absl::StrContains(name, "coalesce") || absl::StrContains(name, "::q_");
  if (shapes.percent(unusual ? 60 : 6)) {
    scene.layout = shapes.one_of<at::Layout>(
        {at::kSparse, at::kSparse, at::kSparse, at::kSparseCsr, at::kSparseCsc,
         at::kSparseBsr, at::kSparseBsc, at::kStrided, at::kStrided});
    scene.quantized = scene.layout == at::kStrided;
    if (!scene.quantized && scene.layout != at::kSparse) scene.dims = 2;
  }
  return scene;
}

void TensorMaker::begin_argument(const std::string& name, uint64_t types) {
  name_ = name;
  types_ = Draws(types);
}

std::vector<int64_t> TensorMaker::sizes(Draws* draws) {
  size_t dims = scene_.dims;
  if (is_vector(name_, schema_.name()) && draws->percent(75)) {
    dims = 1;
  } else if (draws->percent(30)) {
    dims = draws->below(6);
  }
  std::vector<int64_t> sizes(dims, scene_.size);
  if (scene_.ragged || draws->percent(5)) {
    for (int64_t& size : sizes) {
      if (draws->percent(30)) size = draws->percent(70) ? 1 : 2;
    }
  }
  return sizes;
}

at::ScalarType TensorMaker::dtype() {
  if (holds_indices(name_) && types_.percent(85)) {
    return types_.percent(85) ? at::kLong : at::kInt;
  }
  if (is_mask(name_) && types_.percent(65)) return at::kBool;
  if (!scene_.mixed_types || types_.percent(50)) return scene_.dtype;
  return types_.one_of<at::ScalarType>(
      {at::kFloat, at::kLong, at::kBool, at::kInt, at::kDouble});
}

at::Tensor TensorMaker::dense(at::IntArrayRef sizes, at::ScalarType dtype) {
  int64_t count = 1;
  for (const int64_t size : sizes) count *= size;
  const bool whole = !at::isFloatingType(dtype) && !at::isComplexType(dtype);
  std::vector<double> values;
  for (int64_t i = 0; i < count; ++i) {
    const double random = double(types_.below(1000)) / 1000;
    const double below_size =
        double(types_.below(size_t(std::max<int64_t>(scene_.size, 1))));
    switch (scene_.values) {
      case 1:
        values.push_back(0);
        break;
      case 2:
        values.push_back(1);
        break;
      case 3:
        values.push_back(whole ? double(i % std::max<int64_t>(scene_.size, 1))
                               : double(i));
        break;
      case 4:
        values.push_back(whole ? below_size : 4 * random - 2);
        break;
      default:
        values.push_back(whole ? below_size : random);
    }
  }
  const at::Tensor flat = at::tensor(values, at::TensorOptions(at::kDouble));
  // A copy of the right size, also where nothing is converted.
  return at::empty(sizes, dtype).copy_(flat.reshape(sizes));
}

at::Tensor TensorMaker::strided(const std::vector<int64_t>& sizes,
                                at::ScalarType dtype, Draws* draws) {
  const size_t kind = scene_.contiguous ? 0 : draws->below(20);
  const size_t dims = sizes.size();
  if (kind == 11 && dims >= 2) {
    std::vector<int64_t> swapped = sizes;
    std::swap(swapped[dims - 1], swapped[dims - 2]);
    return dense(swapped, dtype).transpose(-1, -2);
  }
  if ((kind == 12 || kind == 13) && dims >= 1) {
    std::vector<int64_t> single = sizes;
    single[draws->below(dims)] = 1;
    return dense(single, dtype).expand(sizes);
  }
  if (kind == 14 && dims >= 1) {
    std::vector<int64_t> larger = sizes;
    larger[dims - 1] += 2;
    return dense(larger, dtype).narrow(-1, 1, sizes[dims - 1]);
  }
  if (kind == 15 && dims == 4) {
    return dense(sizes, dtype).contiguous(at::MemoryFormat::ChannelsLast);
  }
  if (kind >= 16 && kind <= 18 && at::isComplexType(dtype)) {
    return dense(sizes, dtype).conj();
  }
  if (kind == 19 && at::isFloatingType(dtype)) {
    return at::_neg_view(dense(sizes, dtype));
  }
  return dense(sizes, dtype);
}

at::Tensor TensorMaker::tensor(Draws* draws) {
  const std::vector<int64_t> shape = sizes(draws);
  const at::ScalarType type = dtype();
  if (scene_.quantized && draws->percent(60)) {
    const at::Tensor values = dense(shape, at::kFloat);
    const auto target = draws->percent(50) ? at::kQUInt8 : at::kQInt8;
    if (shape.empty() || shape[0] == 0 || draws->percent(60)) {
      return at::quantize_per_tensor(values, 0.1, 0, target);
    }
    return at::quantize_per_channel(values, at::ones({shape[0]}, at::kDouble),
                                    at::zeros({shape[0]}, at::kLong), 0,
                                    target);
  }
  if (scene_.layout == at::kSparse && draws->percent(60)) {
    const at::Tensor sparse = dense(shape, type).to_sparse();
    if (draws->percent(70)) return sparse;
    return sparse._coalesced_(false);
  }
  if (shape.size() == 2 && scene_.layout != at::kStrided &&
      scene_.layout != at::kSparse && draws->percent(60)) {
    const bool blocked =
        scene_.layout == at::kSparseBsr || scene_.layout == at::kSparseBsc;
    return dense(shape, type)
        .to_sparse(scene_.layout, blocked ? at::OptionalIntArrayRef({1, 1})
                                          : at::OptionalIntArrayRef());
  }
  at::Tensor made = strided(shape, type, draws);
  if (scene_.gradients && (at::isFloatingType(type) || made.is_complex()) &&
      draws->percent(60)) {
    made.set_requires_grad(true);
  }
  return made;
}

}  // namespace ferry
