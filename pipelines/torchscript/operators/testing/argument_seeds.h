#pragma once

#include <ATen/core/function_schema.h>
#include <c10/core/ScalarType.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ferry {

// Random numbers that are the same on every machine.
class Draws {
 public:
  explicit Draws(uint64_t seed) : state_(seed) {}

  uint64_t next();
  // From 0 to `count` - 1.
  size_t below(size_t count) { return next() % count; }
  // True in `percent` of a hundred cases.
  bool percent(size_t percent) { return below(100) < percent; }
  template <typename T>
  T one_of(const std::vector<T>& values) {
    return values[below(values.size())];
  }

 private:
  uint64_t state_;
};

// What the arguments of one call are made from. A part can be drawn anew while
// the others stay.
struct ArgumentSeeds {
  // Data types and values of tensors.
  uint64_t types = 0;
  // Sizes and layouts, and whether defaults are taken.
  uint64_t shapes = 0;
  // What each argument makes of both.
  std::vector<uint64_t> arguments;
  // Texts of arguments that are given; the others are empty or missing.
  std::vector<std::string> given;
  // In place of the data type that is drawn.
  std::optional<at::ScalarType> dtype;
  // Whether tensors may require gradients.
  bool gradients = false;
};

// A seed of types that gives random numbers of 32 bits.
constexpr uint64_t kRandomFloats = 21;

ArgumentSeeds draw_seeds(const c10::FunctionSchema& schema, Draws* draws);
// The same but for one part.
ArgumentSeeds vary_seeds(ArgumentSeeds seeds, Draws* draws);

}  // namespace ferry
