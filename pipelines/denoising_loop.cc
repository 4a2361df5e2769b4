#include "pipelines/denoising_loop.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <c10/core/TensorOptions.h>

#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "platform/base/error_info.h"
#include "platform/base/fault_point.h"
#include "platform/base/status_macros.h"

namespace ferry {
namespace {

absl::Status check_shape(const at::Tensor& output, const at::Tensor& input) {
  if (output.defined() && output.sizes() == input.sizes()) {
    return absl::OkStatus();
  }
  const std::string got =
      output.defined() ? absl::StrJoin(output.sizes(), ", ") : "";
  return make_error(
      absl::StatusCode::kInternal,
      absl::StrCat("denoise: returned [", got, "] for latents of [",
                   absl::StrJoin(input.sizes(), ", "), "]"),
      {"INTERNAL", {}});
}

at::Tensor guide(const at::Tensor& output, double scale) {
  const std::vector<at::Tensor> halves = output.chunk(2);
  return halves[0] + (halves[1] - halves[0]) * scale;
}

// One reduction: a sum is finite exactly when all its terms are, as long as
// they are far from float32's end.
bool is_finite(const at::Tensor& tensor) {
  return std::isfinite(tensor.sum().item<float>());
}

}  // namespace

absl::Status non_finite_error(absl::string_view what, int step) {
  return make_error(absl::StatusCode::kInternal,
                    absl::StrCat(what, " are not finite after step ", step),
                    {"NON_FINITE_OUTPUT", {{"step", absl::StrCat(step)}}});
}

absl::StatusOr<at::Tensor> run_denoising_loop(RootModule& root,
                                              const DenoisingInputs& inputs,
                                              NoiseSchedule& schedule,
                                              NoiseSource& noise,
                                              const StepCallback& on_step) {
  // Drawn on the host: noise does not depend on the device.
  at::Tensor latents =
      (noise.draw(inputs.latent_shape) * schedule.init_noise_sigma())
          .to(root.device());
  const int64_t rows = latents.size(0) * (inputs.classifier_free ? 2 : 1);
  for (int step = 0; step < schedule.num_steps(); ++step) {
    RETURN_IF_ERROR(on_step(step, latents));
    fault_point("denoise_step");
    at::Tensor input =
        schedule.scale_model_input(latents, step).to(root.compute_dtype());
    if (inputs.classifier_free) input = at::cat({input, input});
    const at::Tensor timestep =
        at::full({rows}, schedule.timesteps()[step],
                 c10::TensorOptions(at::kFloat).device(root.device()));
    ASSIGN_OR_RETURN(at::Tensor output,
                     root.denoise(input, timestep, inputs.conditioning));
    RETURN_IF_ERROR(check_shape(output, input));
    output = output.to(at::kFloat);
    if (inputs.classifier_free) output = guide(output, inputs.guidance_scale);
    latents = schedule.step(output, step, latents, noise);
    if (!is_finite(latents)) return non_finite_error("latents", step + 1);
  }
  RETURN_IF_ERROR(on_step(schedule.num_steps(), latents));
  return latents;
}

}  // namespace ferry
