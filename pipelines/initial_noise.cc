#include "pipelines/initial_noise.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/randn.h>

namespace ferry {

at::Tensor make_initial_noise(const std::vector<int64_t>& shape, int64_t seed) {
  std::vector<int64_t> one = shape;
  one.at(0) = 1;
  std::vector<at::Tensor> noise;
  for (int64_t i = 0; i < shape.at(0); ++i) {
    at::Generator generator = at::detail::createCPUGenerator(
        static_cast<uint64_t>(seed) + static_cast<uint64_t>(i));
    noise.push_back(at::randn(one, generator, at::kFloat));
  }
  return at::cat(noise);
}

}  // namespace ferry
