#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "ATen/ops/arange.h"
#include "ATen/ops/ones.h"
#include "ATen/ops/tensor.h"
#include "ATen/ops/zeros.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "pipelines/images/latent_preview.h"
#include "pipelines/images/tensor_to_image.h"

namespace ferry {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<int> pixels(const RgbImage& image) {
  std::vector<int> values;
  for (char c : image.pixels) values.push_back(static_cast<uint8_t>(c));
  return values;
}

TEST(TensorToImageTest, InterleavesChannels) {
  // Red 0.0, 0.2; green 0.4, 0.6; blue 0.8, 1.0.
  const at::Tensor tensor =
      at::tensor({0.0f, 0.2f, 0.4f, 0.6f, 0.8f, 1.0f}).view({3, 1, 2});
  const auto image = tensor_to_image(tensor);
  ASSERT_TRUE(image.ok()) << image.status();
  EXPECT_EQ(image->width, 2);
  EXPECT_EQ(image->height, 1);
  EXPECT_THAT(pixels(*image), ElementsAre(0, 102, 204, 51, 153, 255));
}

TEST(TensorToImageTest, ClampsAndRoundsHalfToEven) {
  const at::Tensor tensor =
      at::tensor({-1.0f, 2.0f, 0.5f / 255, 1.5f / 255, 2.5f / 255, 0.999f})
          .view({1, 2, 3});
  const auto image = tensor_to_image(tensor);
  ASSERT_TRUE(image.ok()) << image.status();
  EXPECT_EQ(image->width, 3);
  EXPECT_EQ(image->height, 2);
  EXPECT_THAT(pixels(*image), ElementsAre(0, 0, 0, 255, 255, 255, 0, 0, 0,  //
                                          2, 2, 2, 2, 2, 2, 255, 255, 255));
}

TEST(TensorToImageTest, TakesHalfPrecisionAndAnyStrides) {
  const at::Tensor tensor =
      at::arange(12, at::kFloat).div(255).view({2, 2, 3}).permute({2, 0, 1});
  const auto image = tensor_to_image(tensor.to(at::kHalf));
  ASSERT_TRUE(image.ok()) << image.status();
  EXPECT_THAT(pixels(*image),
              ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11));
}

TEST(TensorToImageTest, RefusesValuesThatAreNotFinite) {
  for (float value : {std::nanf(""), INFINITY, -INFINITY}) {
    at::Tensor tensor = at::zeros({3, 2, 2});
    tensor[2][1][1].fill_(value);
    EXPECT_EQ(tensor_to_image(tensor).status().code(),
              absl::StatusCode::kFailedPrecondition);
  }
}

TEST(TensorToImageTest, RefusesOtherShapesAndTypes) {
  for (const at::Tensor& tensor :
       {at::zeros({3, 2}), at::zeros({2, 4, 4}), at::zeros({1, 3, 4, 4}),
        at::zeros({3, 0, 4}), at::zeros({3, 4, 4}, at::kByte),
        at::zeros({1, 1, kMaxImageEdge + 1})}) {
    EXPECT_EQ(tensor_to_image(tensor).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
}

TEST(LatentPreviewTest, EnlargesByWholePixelsAndStretchesEachChannel) {
  at::Tensor latents = at::zeros({4, 1, 2});
  latents[0][0][1].fill_(-3.0);
  latents[1][0][1].fill_(100.0);
  latents[3].fill_(7.0);
  const auto image = latent_preview(latents, 5);
  ASSERT_TRUE(image.ok()) << image.status();
  // Five pixels hold two squares of two.
  EXPECT_EQ(image->width, 4);
  EXPECT_EQ(image->height, 2);
  EXPECT_THAT(pixels(*image),
              ElementsAre(255, 0, 0, 255, 0, 0, 0, 255, 0, 0, 255, 0,  //
                          255, 0, 0, 255, 0, 0, 0, 255, 0, 0, 255, 0));
}

TEST(LatentPreviewTest, ReducesByAreaAndKeepsTheShape) {
  const at::Tensor latents =
      at::arange(8, at::kFloat).view({1, 2, 4}).to(at::kBFloat16);
  const auto image = latent_preview(latents, 2);
  ASSERT_TRUE(image.ok()) << image.status();
  EXPECT_EQ(image->width, 2);
  EXPECT_EQ(image->height, 1);
  // Means of 0, 1, 4, 5 and of 2, 3, 6, 7, of 7.
  EXPECT_THAT(pixels(*image), ElementsAre(91, 91, 91, 164, 164, 164));
}

TEST(LatentPreviewTest, NeverExceedsMaxEdgeNorVanishes) {
  const auto thin = latent_preview(at::ones({3, 1, 1000}), 64);
  ASSERT_TRUE(thin.ok()) << thin.status();
  EXPECT_EQ(thin->width, 64);
  EXPECT_EQ(thin->height, 1);
  const auto dot = latent_preview(at::ones({3, 9, 9}), 1);
  ASSERT_TRUE(dot.ok()) << dot.status();
  EXPECT_EQ(dot->pixels.size(), 3u);
}

TEST(LatentPreviewTest, ShowsTheFirstFrame) {
  at::Tensor latents = at::zeros({3, 2, 1, 2});
  latents.select(1, 1).fill_(5.0);
  latents.select(1, 0).select(2, 1).fill_(1.0);
  const auto image = latent_preview(latents, 2);
  ASSERT_TRUE(image.ok()) << image.status();
  EXPECT_THAT(pixels(*image), ElementsAre(0, 0, 0, 255, 255, 255));
}

TEST(LatentPreviewTest, SurvivesValuesThatAreNotFinite) {
  at::Tensor latents = at::zeros({3, 1, 3});
  latents.select(2, 0).fill_(std::nan(""));
  latents.select(2, 1).fill_(std::numeric_limits<float>::max());
  latents.select(2, 2).fill_(std::numeric_limits<float>::lowest());
  const auto image = latent_preview(latents, 3);
  ASSERT_TRUE(image.ok()) << image.status();
  EXPECT_THAT(pixels(*image),
              ElementsAre(128, 128, 128, 255, 255, 255, 0, 0, 0));
}

TEST(LatentPreviewTest, RefusesWhatItCannotShow) {
  EXPECT_THAT(
      std::string(latent_preview(at::ones({4, 4}), 64).status().message()),
      HasSubstr("latents must be"));
  EXPECT_FALSE(latent_preview(at::ones({3, 0, 4}), 64).ok());
  EXPECT_FALSE(latent_preview(at::ones({3, 4, 4}, at::kLong), 64).ok());
  EXPECT_THAT(
      std::string(latent_preview(at::ones({3, 4, 4}), 0).status().message()),
      HasSubstr("max_edge"));
}

}  // namespace
}  // namespace ferry
