#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ATen/core/Tensor.h"
#include "absl/status/statusor.h"
#include "pipelines/schedulers/mu.h"
#include "pipelines/schedulers/noise_source.h"
#include "pipelines/schedulers/prediction.h"

namespace ferry {

// How a NoiseScheduler takes custom noise levels.
enum class CustomSigmas {
  // Not at all.
  kRefused,
  // Levels of rectified flow, above 0 and at most 1: one before each step,
  // shifted as the scheduler's own are.
  kPerStep,
  // Levels before each step and after the last one, taken as they are. Only
  // the last may be 0.
  kWithLast,
};

// What one generation asks of a NoiseScheduler.
struct NoiseScheduleOptions {
  // Steps to make; unused with `sigmas`.
  int num_inference_steps = 0;
  // Image tokens of the transformer, from which dynamic shifting computes mu.
  // Required by a scheduler whose needs_image_seq_len() is true.
  std::optional<int64_t> image_seq_len;
  // How dynamic shifting gets from there to mu.
  MuRule mu;
  // Custom noise levels, falling, in place of the scheduler's own grid; see
  // CustomSigmas.
  std::vector<double> sigmas;
  // What the model is told at each of them. Empty: what follows from the
  // shifted levels. As many as `sigmas`, for a scheduler with
  // FlowTraits::takes_timesteps.
  std::vector<double> timesteps;
};

// The noise levels of one generation and the state of its sampler.
//
// Ownership: independent of the NoiseScheduler that made it.
// Threads: not thread-safe; one generation's.
// Errors: none; what can be wrong was checked when it was made.
// Shapes: any with the batch first, as long as model_output's is the sample's.
class NoiseSchedule {
 public:
  virtual ~NoiseSchedule() = default;

  int num_steps() const { return static_cast<int>(timesteps_.size()); }
  // What the model is told at each step, in the model's own unit (mostly 0 to
  // 1000); num_steps() values.
  const std::vector<float>& timesteps() const { return timesteps_; }
  // Noise levels: before each step, and after the last; num_steps() + 1. A
  // first one may be infinite, where a model starts from pure noise.
  const std::vector<float>& sigmas() const { return sigmas_; }
  // Standard deviation of the initial noise: multiply N(0, 1) by it.
  float init_noise_sigma() const { return init_noise_sigma_; }

  // Returns what the model gets to see of the latents at step `i`.
  // REQUIRES: 0 <= i < num_steps().
  at::Tensor scale_model_input(const at::Tensor& sample, int i) const;
  // Returns the latents after step `i`, in model_output's dtype; computed in
  // float32. Samplers that add noise take it from `noise`; the others leave it
  // alone. REQUIRES: 0 <= i < num_steps(); steps are made in order, each once;
  // equal shapes.
  at::Tensor step(const at::Tensor& model_output, int i,
                  const at::Tensor& sample, NoiseSource& noise);

 protected:
  // REQUIRES: `sigmas` has one value more than `timesteps`.
  NoiseSchedule(std::vector<float> timesteps, std::vector<float> sigmas,
                float init_noise_sigma);

 private:
  // They do the work of scale_model_input() and step().
  virtual at::Tensor scale(const at::Tensor& sample, int i) const;
  virtual at::Tensor make_step(const at::Tensor& model_output, int i,
                               const at::Tensor& sample,
                               NoiseSource& noise) = 0;

  const std::vector<float> timesteps_;
  const std::vector<float> sigmas_;
  const float init_noise_sigma_;
  int steps_made_ = 0;
};

// Numbers of steps that a NoiseScheduler can make, both ends included.
struct StepRange {
  int min = 1;
  int max = std::numeric_limits<int>::max();
};

// What a NoiseScheduler of rectified flow says of the levels that a pipeline
// may hand to it.
struct FlowTraits {
  int64_t num_train_timesteps = 1000;
  // The model sees 1 - level, so that levels rise.
  bool inverts_sigmas = false;
  // Dynamic shifting multiplies by mu instead of exp(mu).
  bool has_linear_time_shift = false;
  // It can be told timesteps beside the levels.
  bool takes_timesteps = false;
};

// A sampler: how noise becomes an image. diffusers calls it a scheduler;
// here a scheduler is what puts requests in order.
//
// Immutable, so that requests share nothing but settings. Thread-safe.
class NoiseScheduler {
 public:
  virtual ~NoiseScheduler() = default;

  // diffusers' class name without "Scheduler", such as "EulerDiscrete".
  virtual std::string name() const = 0;
  virtual Prediction prediction() const = 0;
  virtual CustomSigmas custom_sigmas() const { return CustomSigmas::kRefused; }
  // True if it shifts noise levels by the size of the image.
  virtual bool needs_image_seq_len() const { return false; }
  // Other numbers of steps are errors of make_schedule(), as may be some
  // within, for which the options leave no grid of falling levels.
  virtual StepRange step_range() const = 0;
  // Set by those with CustomSigmas::kPerStep.
  virtual std::optional<FlowTraits> flow_traits() const { return std::nullopt; }

  // Computes the noise levels of a generation: they fall (or rise, where they
  // are inverted), so that every step has a length. The last step of the
  // scheduler's own grid may have none, where its options let the levels end
  // above 0. Errors are INVALID_ARGUMENT and name the step.
  absl::StatusOr<std::unique_ptr<NoiseSchedule>> make_schedule(
      const NoiseScheduleOptions& options) const;

 protected:
  // Does the work of make_schedule(), which checks what comes out.
  virtual absl::StatusOr<std::unique_ptr<NoiseSchedule>> compute_schedule(
      const NoiseScheduleOptions& options) const = 0;
};

}  // namespace ferry
