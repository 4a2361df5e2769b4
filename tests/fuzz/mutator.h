#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "platform/base/check.h"

namespace ferry {

// Changes inputs as a fuzzer does, the same way in every run.
//
// Not thread-safe.
class Mutator {
 public:
  // REQUIRES: !seeds.empty(), as draw() checks.
  Mutator(std::vector<std::string> seeds, uint64_t random_seed)
      : seeds_(std::move(seeds)), random_(random_seed) {}

  // A seed, changed at one place or a few.
  std::string next();

 private:
  // 0 to count − 1. REQUIRES: count > 0.
  size_t draw(size_t count) {
    FERRY_CHECK_GT(count, 0u);
    return random_() % count;
  }
  void mutate(std::string* input);

  const std::vector<std::string> seeds_;
  std::mt19937_64 random_;
};

}  // namespace ferry
