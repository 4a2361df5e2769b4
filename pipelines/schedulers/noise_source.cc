#include "pipelines/schedulers/noise_source.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/randn.h>

#include "platform/base/check.h"

namespace ferry {

NoiseSource::NoiseSource(int64_t seed, int64_t pictures) {
  FERRY_CHECK_GE(pictures, 1);
  for (int64_t i = 0; i < pictures; ++i) {
    generators_.push_back(at::detail::createCPUGenerator(
        static_cast<uint64_t>(seed) + static_cast<uint64_t>(i)));
  }
}

at::Tensor NoiseSource::draw(at::IntArrayRef shape) {
  FERRY_CHECK(!shape.empty());
  FERRY_CHECK_EQ(static_cast<size_t>(shape[0]), generators_.size());
  std::vector<int64_t> one = shape.vec();
  one[0] = 1;
  std::vector<at::Tensor> noise;
  noise.reserve(generators_.size());
  for (const at::Generator& generator : generators_) {
    noise.push_back(at::randn(one, generator, at::kFloat));
  }
  return at::cat(noise);
}

}  // namespace ferry
