#pragma once

#include <vector>

#include "pipelines/schedulers/scheduler_config.h"

namespace ferry {

// What a model is trained to predict, given noisy latents. Samplers of one
// model must agree on it.
enum class Prediction {
  // The noise.
  kEpsilon,
  // The image.
  kSample,
  // alpha * noise - sigma * image ("v").
  kVelocity,
  // noise - image, of rectified flow.
  kFlow,
};

// diffusers' name: epsilon, sample, v_prediction, flow_prediction.
const char* prediction_name(Prediction prediction);

// Reads prediction_type, one of `choices`; the first when it is absent.
Prediction read_prediction(SchedulerConfig& config,
                           const std::vector<Prediction>& choices);

}  // namespace ferry
