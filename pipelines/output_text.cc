#include "pipelines/output_text.h"

#include <charconv>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "platform/base/version.h"

namespace ferry {
namespace {

// As few digits as give the same number again.
std::string shortest(double value) {
  char text[32];
  const auto result = std::to_chars(text, text + sizeof(text), value);
  return std::string(text, result.ptr);
}

}  // namespace

std::string make_output_text(const v1::GenerationSpec& spec, int64_t seed) {
  std::string text = spec.prompt();
  if (!spec.negative_prompt().empty()) {
    absl::StrAppend(&text, "\nNegative prompt: ", spec.negative_prompt());
  }
  absl::StrAppend(&text, "\nSteps: ", spec.num_inference_steps(),
                  ", Sampler: ", spec.scheduler());
  if (spec.has_guidance_scale()) {
    absl::StrAppend(&text, ", CFG scale: ", shortest(spec.guidance_scale()));
  }
  absl::StrAppend(&text, ", Seed: ", seed, ", Size: ", spec.width(), "x",
                  spec.height());
  if (!spec.pipeline().empty()) {
    absl::StrAppend(
        &text, ", Model: ", absl::StripPrefix(spec.pipeline(), "pipelines/"));
  }
  absl::StrAppend(&text, ", Version: Ferry ", kVersion);
  return text;
}

}  // namespace ferry
