#include "server/core/generation_work.h"

#include <gtest/gtest.h>

#include "server/core/testing/test_pipeline.h"

namespace ferry {
namespace {

v1::GenerationSpec make_spec() {
  v1::GenerationSpec spec;
  spec.set_height(64);
  spec.set_width(128);
  spec.set_num_images(1);
  spec.set_guidance_scale(1);
  spec.set_num_inference_steps(10);
  return spec;
}

TEST(GenerationWorkTest, IsThePixelsOfAllRows) {
  const v1::Pipeline pipeline = make_test_pipeline();
  v1::GenerationSpec spec = make_spec();
  EXPECT_EQ(work_of(spec, pipeline).pass, 64 * 128);
  spec.set_num_images(3);
  EXPECT_EQ(work_of(spec, pipeline).pass, 3 * 64 * 128);
  spec.set_guidance_scale(1.5);
  EXPECT_EQ(work_of(spec, pipeline).pass, 2 * 3 * 64 * 128);
}

TEST(GenerationWorkTest, EmbeddedGuidanceAddsNoRows) {
  v1::Pipeline pipeline = make_test_pipeline();
  pipeline.mutable_defaults()->clear_negative_prompt();
  v1::GenerationSpec spec = make_spec();
  spec.set_guidance_scale(7);
  EXPECT_EQ(work_of(spec, pipeline).pass, 64 * 128);
}

TEST(GenerationWorkTest, CountsStepsHoweverTheyAreGiven) {
  const v1::Pipeline pipeline = make_test_pipeline();
  v1::GenerationSpec spec = make_spec();
  EXPECT_EQ(work_of(spec, pipeline).passes, 10);
  spec.clear_num_inference_steps();
  for (const double sigma : {1.0, 0.6, 0.2}) spec.add_sigmas(sigma);
  EXPECT_EQ(work_of(spec, pipeline).passes, 3);
}

}  // namespace
}  // namespace ferry
