#include "pipelines/torchscript/seed_generators.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <random>
#include <set>

namespace ferry {
namespace {

TEST(SeedGenerators, TheDerivationIsTheDocumentedOne) {
  // The first outputs of SplitMix64 from these states.
  EXPECT_EQ(model_seed(0), 0xe220a8397b1dcdafu);
  EXPECT_EQ(model_seed(1), 0x910a2dec89025cc1u);
}

TEST(SeedGenerators, NoPicturesNoiseHasTheSeedOfTheModel) {
  std::mt19937_64 random(3);
  std::set<uint64_t> seeds;
  for (int i = 0; i < 100000; ++i) {
    const auto seed = static_cast<int64_t>(random());
    const uint64_t model = model_seed(seed);
    EXPECT_TRUE(seeds.insert(model).second);
    // As far as CPU generators look.
    const auto distance =
        static_cast<uint32_t>(model - static_cast<uint64_t>(seed));
    ASSERT_GE(distance, 64u) << seed;
  }
  for (const int64_t seed : {std::numeric_limits<int64_t>::min(), int64_t{-1},
                             std::numeric_limits<int64_t>::max()}) {
    EXPECT_TRUE(seeds.insert(model_seed(seed)).second);
  }
}

TEST(SeedGenerators, WhatWasDrawnBeforeDoesNotCount) {
  const c10::Device host(c10::kCPU);
  seed_generators(5, host);
  const at::Tensor first = at::randn({17});
  // An odd number: normal numbers are drawn in pairs, and one is left.
  (void)at::randn({1});
  seed_generators(5, host);
  EXPECT_TRUE(at::equal(at::randn({17}), first));
  seed_generators(6, host);
  EXPECT_FALSE(at::equal(at::randn({17}), first));
  // The initial noise of the same seed is another one.
  at::Generator noise = at::detail::createCPUGenerator(5);
  EXPECT_FALSE(at::equal(at::randn({17}, noise), first));
}

}  // namespace
}  // namespace ferry
