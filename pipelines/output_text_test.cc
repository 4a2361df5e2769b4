#include "pipelines/output_text.h"

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "platform/base/version.h"

namespace ferry {
namespace {

v1::GenerationSpec make_spec() {
  v1::GenerationSpec spec;
  spec.set_scheduler("EulerDiscrete");
  spec.set_pipeline("pipelines/demo");
  spec.set_prompt("a red fox,\nin the snow");
  spec.set_height(64);
  spec.set_width(128);
  spec.set_num_inference_steps(28);
  return spec;
}

TEST(OutputTextTest, TellsPromptsAndSettings) {
  v1::GenerationSpec spec = make_spec();
  spec.set_negative_prompt("blurry");
  spec.set_guidance_scale(3.5);
  EXPECT_EQ(make_output_text(spec, 9007199254740993),
            absl::StrCat("a red fox,\nin the snow\n"
                         "Negative prompt: blurry\n"
                         "Steps: 28, Sampler: EulerDiscrete, CFG scale: 3.5, "
                         "Seed: 9007199254740993, Size: 128x64, Model: demo, "
                         "Version: Ferry ",
                         kVersion));
}

TEST(OutputTextTest, LeavesOutWhatThereIsNot) {
  v1::GenerationSpec spec = make_spec();
  spec.clear_pipeline();
  spec.set_negative_prompt("");
  EXPECT_EQ(make_output_text(spec, 0),
            absl::StrCat("a red fox,\nin the snow\n"
                         "Steps: 28, Sampler: EulerDiscrete, Seed: 0, "
                         "Size: 128x64, Version: Ferry ",
                         kVersion));
}

TEST(OutputTextTest, NumbersReadBackAsTheSame) {
  v1::GenerationSpec spec = make_spec();
  for (const auto& [value, text] :
       {std::pair(7.0, "7"), std::pair(0.1, "0.1"), std::pair(1e-7, "1e-07"),
        std::pair(4.123456789012345, "4.123456789012345")}) {
    spec.set_guidance_scale(value);
    EXPECT_NE(
        make_output_text(spec, 0).find(absl::StrCat("CFG scale: ", text, ", ")),
        std::string::npos)
        << text;
  }
}

}  // namespace
}  // namespace ferry
