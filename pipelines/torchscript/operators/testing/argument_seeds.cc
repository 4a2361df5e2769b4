#include "pipelines/torchscript/operators/testing/argument_seeds.h"

namespace ferry {

uint64_t Draws::next() {
  // SplitMix64.
  state_ += 0x9e3779b97f4a7c15;
  uint64_t bits = state_;
  bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9;
  bits = (bits ^ (bits >> 27)) * 0x94d049bb133111eb;
  return bits ^ (bits >> 31);
}

ArgumentSeeds draw_seeds(const c10::FunctionSchema& schema, Draws* draws) {
  ArgumentSeeds seeds;
  seeds.types = draws->next();
  seeds.shapes = draws->next();
  for (size_t i = 0; i < schema.arguments().size(); ++i) {
    seeds.arguments.push_back(draws->next());
  }
  seeds.gradients = draws->percent(15);
  return seeds;
}

ArgumentSeeds vary_seeds(ArgumentSeeds seeds, Draws* draws) {
  const size_t part = draws->below(10);
  if (part < 6 && !seeds.arguments.empty()) {
    const size_t argument = draws->below(seeds.arguments.size());
    seeds.arguments[argument] = draws->next();
    if (argument < seeds.given.size()) seeds.given[argument].clear();
  } else if (part < 8) {
    seeds.types = draws->next();
  } else if (part < 9) {
    seeds.gradients = !seeds.gradients;
  } else {
    seeds.shapes = draws->next();
  }
  return seeds;
}

}  // namespace ferry
