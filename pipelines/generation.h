#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "ferry/config/v1/pipeline_manifest.pb.h"
#include "ferry/v1/generation_spec.pb.h"
#include "ferry/v1/job.pb.h"
#include "pipelines/denoising_loop.h"
#include "pipelines/generation_observer.h"
#include "pipelines/images/image.h"
#include "pipelines/noise_schedulers.h"
#include "pipelines/schedulers/noise_scheduler.h"
#include "pipelines/tokenizers/tokenizer.h"
#include "pipelines/torchscript/root_module.h"

namespace ferry {

// What the generations of a pipeline share. Constant, but for the root module.
struct PipelineParts {
  config::v1::PipelineManifest manifest;
  std::unique_ptr<RootModule> root;
  std::vector<std::unique_ptr<Tokenizer>> tokenizers;
  std::unique_ptr<NoiseSchedulers> schedulers;
};

// One generation: text encode → denoise → decode → encode, each stage once.
//
// Ownership: refers to parts, spec and observer, which must outlive it.
// Threads: not thread-safe; runs in a TorchScope.
// Errors: as Pipeline::generate(). Throws what LibTorch throws outside of
//   modules' methods.
class Generation {
 public:
  Generation(const PipelineParts& parts, const v1::GenerationSpec& spec,
             GenerationObserver& observer);

  // REQUIRES: called once.
  absl::StatusOr<GenerationReport> run();

 private:
  // Tells that a stage begins; CANCELLED when asked to end.
  absl::Status begin(v1::Progress::Stage stage, int step);
  absl::Status check_cancelled();

  absl::Status check_spec() const;
  absl::Status check_steps() const;
  absl::Status make_schedule();
  absl::Status encode_prompts();
  absl::Status denoise();
  absl::Status on_step(int step, const at::Tensor& latents);
  absl::Status send_previews(int step, const at::Tensor& latents);
  absl::Status decode();
  absl::Status encode_outputs();

  // Token ids and masks of the prompts, as encode_prompt takes them.
  std::vector<at::Tensor> tokenize(const std::vector<std::string>& prompts);

  // Constant after construction.
  const PipelineParts& parts_;
  const v1::GenerationSpec& spec_;
  GenerationObserver& observer_;
  const int num_images_;
  const bool classifier_free_;

  bool has_run_ = false;
  // Handed from stage to stage.
  Conditioning conditioning_;
  std::vector<int64_t> latent_shape_;
  std::unique_ptr<NoiseSchedule> schedule_;
  at::Tensor latents_;
  std::vector<RgbImage> images_;
  GenerationReport report_;
};

}  // namespace ferry
