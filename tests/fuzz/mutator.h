#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace ferry {

// Changes inputs as a fuzzer does, the same way in every run.
//
// Not thread-safe.
class Mutator {
 public:
  Mutator(std::vector<std::string> seeds, uint64_t random_seed)
      : seeds_(std::move(seeds)), random_(random_seed) {}

  // A seed, changed at one place or a few.
  std::string next();

 private:
  // 0 to count − 1. REQUIRES: count > 0.
  size_t draw(size_t count) { return random_() % count; }
  void mutate(std::string* input);

  const std::vector<std::string> seeds_;
  std::mt19937_64 random_;
};

}  // namespace ferry
