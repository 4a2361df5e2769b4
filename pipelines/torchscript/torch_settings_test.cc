#include "pipelines/torchscript/torch_settings.h"

#include <ATen/Context.h>
#include <gtest/gtest.h>

namespace ferry {
namespace {

// Whatever somebody has set before, or the environment.
TEST(TorchSettingsTest, ChoosesWhatGivesTheSameBytesAgain) {
  at::Context& context = at::globalContext();
  context.setBenchmarkCuDNN(true);
  context.setDeterministicCuDNN(false);
  context.setDeterministicMkldnn(false);
  context.setDeterministicAlgorithms(false, /*warn_only=*/false);
  set_deterministic_mode();
  EXPECT_FALSE(context.benchmarkCuDNN());
  EXPECT_TRUE(context.deterministicCuDNN());
  EXPECT_TRUE(context.deterministicMkldnn());
  EXPECT_TRUE(context.deterministicAlgorithms());
  // A package whose operators have no such algorithm runs all the same.
  EXPECT_TRUE(context.deterministicAlgorithmsWarnOnly());
  EXPECT_FALSE(context.deterministicFillUninitializedMemory());
}

TEST(TorchSettingsTest, Float32IsAsPreciseAsInDiffusers) {
  at::Context& context = at::globalContext();
  for (const bool before : {false, true}) {
    context.setAllowTF32CuDNN(before);
    context.setAllowTF32CuBLAS(before);
    set_deterministic_mode();
    EXPECT_TRUE(context.allowTF32CuDNN());
    EXPECT_FALSE(context.allowTF32CuBLAS());
  }
}

}  // namespace
}  // namespace ferry
