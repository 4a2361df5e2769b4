#include "pipelines/output_texts.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace ferry {
namespace {

// A text chunk ends at NUL.
std::string without_nul(std::string text) {
  std::replace(text.begin(), text.end(), '\0', ' ');
  return text;
}

}  // namespace

std::vector<PngText> make_output_texts(const v1::GenerationSpec& spec,
                                       const std::string& scheduler,
                                       int64_t seed) {
  std::vector<PngText> texts = {
      {"Software", "Ferry"},
      {"prompt", without_nul(spec.prompt())},
      {"seed", absl::StrCat(seed)},
      {"num_inference_steps", absl::StrCat(spec.num_inference_steps())},
      {"scheduler", scheduler},
  };
  if (spec.has_negative_prompt()) {
    texts.push_back({"negative_prompt", without_nul(spec.negative_prompt())});
  }
  if (spec.has_guidance_scale()) {
    texts.push_back({"guidance_scale", absl::StrCat(spec.guidance_scale())});
  }
  if (!spec.pipeline().empty()) {
    texts.push_back({"pipeline", without_nul(spec.pipeline())});
  }
  return texts;
}

}  // namespace ferry
