#include "pipelines/torchscript/seed_generators.h"

#include <ATen/Context.h>
#include <ATen/core/Generator.h>

#include <mutex>

namespace ferry {
namespace {

// More pictures than a generation can have.
constexpr uint32_t kMostPictures = 1024;

uint64_t mix(uint64_t bits) {
  bits += 0x9e3779b97f4a7c15;
  bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9;
  bits = (bits ^ (bits >> 27)) * 0x94d049bb133111eb;
  return bits ^ (bits >> 31);
}

void seed_generator(uint64_t seed, c10::Device device) {
  at::Generator generator = at::globalContext().defaultGenerator(device);
  // LibTorch's own lock.
  const std::lock_guard lock(generator.mutex());
  generator.set_current_seed(seed);
}

}  // namespace

uint64_t model_seed(int64_t seed) {
  const auto first = static_cast<uint64_t>(seed);
  uint64_t mixed = mix(first);
  while (static_cast<uint32_t>(mixed - first) < kMostPictures) {
    mixed = mix(mixed);
  }
  return mixed;
}

void seed_generators(int64_t seed, c10::Device device) {
  const uint64_t mixed = model_seed(seed);
  seed_generator(mixed, c10::Device(c10::kCPU));
  if (!device.is_cpu()) seed_generator(mixed, device);
}

}  // namespace ferry
