#include "pipelines/schedulers/beta_schedule.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "ATen/TensorOperators.h"
#include "ATen/ops/cat.h"
#include "ATen/ops/cumprod.h"
#include "ATen/ops/linspace.h"
#include "ATen/ops/pow.h"
#include "ATen/ops/tensor.h"

namespace ferry {
namespace {

at::Tensor cosine_betas(int64_t count) {
  const auto alpha_bar = [](double t) {
    const double cosine = std::cos((t + 0.008) / 1.008 * M_PI / 2);
    return cosine * cosine;
  };
  std::vector<float> betas;
  betas.reserve(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    const double t1 = static_cast<double>(i) / static_cast<double>(count);
    const double t2 = static_cast<double>(i + 1) / static_cast<double>(count);
    betas.push_back(
        static_cast<float>(std::min(1 - alpha_bar(t2) / alpha_bar(t1), 0.999)));
  }
  return at::tensor(betas);
}

at::Tensor compute_betas(const BetaSchedule& schedule) {
  const int64_t count = schedule.num_train_timesteps;
  if (schedule.kind == "squaredcos_cap_v2") return cosine_betas(count);
  if (schedule.kind == "scaled_linear") {
    return at::pow(
        at::linspace(std::sqrt(schedule.beta_start),
                     std::sqrt(schedule.beta_end), count, at::kFloat),
        2);
  }
  return at::linspace(schedule.beta_start, schedule.beta_end, count,
                      at::kFloat);
}

at::Tensor rescale_zero_terminal_snr(const at::Tensor& betas) {
  const at::Tensor root = at::cumprod(1.0 - betas, 0).sqrt();
  const at::Tensor first = root[0];
  const at::Tensor last = root[-1];
  const at::Tensor scaled = (root - last) * (first / (first - last));
  const at::Tensor bar = at::pow(scaled, 2);
  const at::Tensor ratios = bar.slice(0, 1) / bar.slice(0, 0, -1);
  return 1 - at::cat({bar.slice(0, 0, 1), ratios});
}

}  // namespace

at::Tensor compute_alphas_cumprod(const BetaSchedule& schedule) {
  at::Tensor betas = compute_betas(schedule);
  if (schedule.rescale_zero_snr) betas = rescale_zero_terminal_snr(betas);
  at::Tensor product = at::cumprod(1.0 - betas, 0);
  // Not quite zero, so that the first sigma is finite.
  if (schedule.rescale_zero_snr) product[-1].fill_(std::ldexp(1.0, -24));
  return product;
}

}  // namespace ferry
