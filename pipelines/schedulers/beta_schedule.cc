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

// `dtype` is that of a scaled_linear schedule; the others are float32.
at::Tensor compute_betas(const BetaSchedule& schedule, at::ScalarType dtype) {
  const int64_t count = schedule.num_train_timesteps;
  if (schedule.kind == "squaredcos_cap_v2") return cosine_betas(count);
  if (schedule.kind == "scaled_linear") {
    return at::pow(at::linspace(std::sqrt(schedule.beta_start),
                                std::sqrt(schedule.beta_end), count, dtype),
                   2);
  }
  return at::linspace(schedule.beta_start, schedule.beta_end, count,
                      at::kFloat);
}

// Moves the square roots of products so that the last is zero and the first
// stays.
at::Tensor stretch_to_zero(const at::Tensor& product) {
  const at::Tensor root = product.sqrt();
  const at::Tensor first = root[0];
  const at::Tensor last = root[-1];
  return at::pow((root - last) * (first / (first - last)), 2);
}

at::Tensor rescale_zero_terminal_snr(const at::Tensor& betas) {
  const at::Tensor bar = stretch_to_zero(at::cumprod(1.0 - betas, 0));
  const at::Tensor ratios = bar.slice(0, 1) / bar.slice(0, 0, -1);
  return 1 - at::cat({bar.slice(0, 0, 1), ratios});
}

}  // namespace

at::Tensor compute_alphas_cumprod(const BetaSchedule& schedule) {
  at::Tensor betas = compute_betas(schedule, at::kFloat);
  if (schedule.rescale_zero_snr) betas = rescale_zero_terminal_snr(betas);
  return at::cumprod(1.0 - betas, 0);
}

at::Tensor compute_cogvideox_alphas_cumprod(const BetaSchedule& schedule,
                                            double snr_shift_scale) {
  at::Tensor product =
      at::cumprod(1.0 - compute_betas(schedule, at::kDouble), 0);
  product = product / (snr_shift_scale + (1 - snr_shift_scale) * product);
  return schedule.rescale_zero_snr ? stretch_to_zero(product) : product;
}

BetaSchedule read_beta_schedule(SchedulerConfig& config,
                                const BetaSchedule& fallback) {
  BetaSchedule betas;
  betas.num_train_timesteps = config.get_int(
      "num_train_timesteps", fallback.num_train_timesteps, 2, 1000000);
  betas.beta_start =
      config.get_double("beta_start", fallback.beta_start, 0, 0.999);
  betas.beta_end = config.get_double("beta_end", fallback.beta_end, 0, 0.999);
  betas.kind =
      config.get_choice("beta_schedule", fallback.kind.c_str(),
                        {"linear", "scaled_linear", "squaredcos_cap_v2"});
  betas.rescale_zero_snr = config.get_bool("rescale_betas_zero_snr", false);
  config.refuse("trained_betas");
  return betas;
}

}  // namespace ferry
