#include "pipelines/schedulers/sigma_grids.h"

#include <cmath>

#include "platform/base/check.h"

namespace ferry {

std::vector<double> linspace(double start, double stop, int count) {
  FERRY_CHECK_GE(count, 0);
  std::vector<double> values(count);
  // The same operations as NumPy's, for the same last bits.
  const double step = count > 1 ? (stop - start) / (count - 1) : 0;
  for (int i = 0; i < count; ++i) values[i] = i * step + start;
  if (count > 1) values.back() = stop;
  return values;
}

std::vector<double> karras_sigmas(double min, double max, int count) {
  constexpr double kRho = 7.0;
  const double min_root = std::pow(min, 1 / kRho);
  const double max_root = std::pow(max, 1 / kRho);
  std::vector<double> sigmas = linspace(0, 1, count);
  for (double& sigma : sigmas) {
    sigma = std::pow(max_root + sigma * (min_root - max_root), kRho);
  }
  return sigmas;
}

std::vector<double> exponential_sigmas(double min, double max, int count) {
  std::vector<double> sigmas = linspace(std::log(max), std::log(min), count);
  for (double& sigma : sigmas) sigma = std::exp(sigma);
  return sigmas;
}

}  // namespace ferry
