#include "pipelines/schedulers/training_sigmas.h"

#include <algorithm>
#include <cmath>

#include "ATen/TensorOperators.h"
#include "ATen/ops/pow.h"
#include "platform/base/check.h"

namespace ferry {
namespace {

std::vector<float> to_vector(const at::Tensor& tensor) {
  return {tensor.const_data_ptr<float>(),
          tensor.const_data_ptr<float>() + tensor.numel()};
}

}  // namespace

TrainingSigmas::TrainingSigmas(const BetaSchedule& schedule) {
  FERRY_CHECK_GE(schedule.num_train_timesteps, 2);
  const at::Tensor product = compute_alphas_cumprod(schedule);
  // Not quite zero, so that the level is finite.
  if (schedule.rescale_zero_snr) product[-1].fill_(std::ldexp(1.0, -24));
  const at::Tensor sigmas = at::pow((1 - product) / product, 0.5);
  sigmas_ = to_vector(sigmas);
  log_sigmas_ = to_vector(sigmas.log());
  lambdas_ = to_vector(product.sqrt().log() - (1 - product).sqrt().log());
}

double TrainingSigmas::interpolate(double timestep) const {
  const double last = static_cast<double>(sigmas_.size() - 1);
  const double clamped = std::clamp(timestep, 0.0, last);
  const size_t low = static_cast<size_t>(clamped);
  const double fraction = clamped - static_cast<double>(low);
  if (fraction == 0) return sigmas_[low];
  const double slope = static_cast<double>(sigmas_[low + 1]) - sigmas_[low];
  return slope * fraction + sigmas_[low];
}

double TrainingSigmas::to_timestep(double sigma) const {
  const double log_sigma = std::log(std::max(sigma, 1e-10));
  // The last training level that is no higher, but never the very last.
  size_t low = 0;
  for (size_t i = 0; i + 1 < log_sigmas_.size(); ++i) {
    if (log_sigma >= log_sigmas_[i]) low = i;
  }
  const double gap = log_sigmas_[low] - log_sigmas_[low + 1];
  const double weight =
      std::clamp((log_sigmas_[low] - log_sigma) / gap, 0.0, 1.0);
  return (1 - weight) * static_cast<double>(low) +
         weight * static_cast<double>(low + 1);
}

int64_t TrainingSigmas::count_above(double lambda_min) const {
  return std::count_if(lambdas_.begin(), lambdas_.end(),
                       [=](float lambda) { return lambda >= lambda_min; });
}

}  // namespace ferry
