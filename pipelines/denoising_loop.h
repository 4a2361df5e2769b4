#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "pipelines/schedulers/noise_scheduler.h"
#include "pipelines/schedulers/noise_source.h"
#include "pipelines/torchscript/root_module.h"

namespace ferry {

// What one run of the denoising loop works on.
struct DenoisingInputs {
  // [batch, …].
  std::vector<int64_t> latent_shape;
  // Rows: the batch; with classifier_free two batches, the negative first.
  Conditioning conditioning;
  // Denoises both halves of the conditioning in one pass and returns
  // negative + guidance_scale · (positive − negative).
  bool classifier_free = false;
  double guidance_scale = 1;
};

// Called before step `step` (from 0) and after the last one, with the latents
// as they are. An error ends the loop with it.
using StepCallback =
    std::function<absl::Status(int step, const at::Tensor& latents)>;

// Turns noise into latents, step by step: the only caller of
// RootModule::denoise. `noise` gives the initial noise, then what the sampler
// adds. Latents are float32 between the steps, whatever the model computes in.
//
// Errors: NON_FINITE_OUTPUT with the step, counted from 1; a callback's; the
//   model's. Throws what LibTorch throws.
absl::StatusOr<at::Tensor> run_denoising_loop(RootModule& root,
                                              const DenoisingInputs& inputs,
                                              NoiseSchedule& schedule,
                                              NoiseSource& noise,
                                              const StepCallback& on_step);

// The error of output that is NaN or infinite after `step` steps.
absl::Status non_finite_error(absl::string_view what, int step);

}  // namespace ferry
