#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ferry/config/v1/pipeline_manifest.pb.h"
#include "ferry/v1/generation_spec.pb.h"
#include "ferry/v1/pipeline.pb.h"
#include "pipelines/schedulers/mu.h"
#include "pipelines/schedulers/noise_scheduler.h"
#include "pipelines/schedulers/pipeline_grid.h"
#include "pipelines/schedulers/scheduler_config.h"

namespace ferry {

// Whether it is a shape of the latents of `batch` pictures: [batch, channels,
// (frames,) height, width], each at least 1.
bool is_latent_shape(const std::vector<int64_t>& shape, int64_t batch);

// Image tokens of latents, for dynamic shifting.
// REQUIRES: is_latent_shape(); a manifest that Package::load() has checked.
int64_t image_seq_len(const std::vector<int64_t>& latent_shape,
                      const config::v1::PipelineManifest& manifest);

// The NoiseSchedulers that a package allows, by name: its own, and what the
// manifest's scheduler.choices derive from its file.
//
// Immutable, thread-safe.
class NoiseSchedulers {
 public:
  // Reads and checks all of them: one that loads makes every number of steps
  // that the manifest's limits allow. Their levels are those of the model's own
  // pipeline in diffusers; scheduler.sigma_grid and scheduler.mu are filled in,
  // and what had to be assumed for them is logged as a warning, as is another
  // class in model_index.json than in the file (the former counts).
  // Errors name the file or the field of the manifest.
  static absl::StatusOr<NoiseSchedulers> load(
      const std::filesystem::path& directory,
      config::v1::PipelineManifest* manifest);

  // What a generation uses. `spec` with an empty scheduler means the package's
  // own. Errors are INVALID_ARGUMENT, INVALID_FIELD with the field: an unknown
  // name, sigmas or a number of steps that the NoiseScheduler does not take.
  absl::StatusOr<std::unique_ptr<NoiseSchedule>> make_schedule(
      const v1::GenerationSpec& spec, int64_t image_seq_len) const;

  // Checks the default and the bounds of the number of steps again, for an
  // image of so many tokens: what dynamic shifting makes of it. Errors name the
  // NoiseScheduler.
  absl::Status check_size(const config::v1::PipelineManifest& manifest,
                          int64_t image_seq_len) const;
  // Whether levels depend on the size of the image.
  bool depend_on_size() const;

  // Names of all, the package's own first.
  std::vector<std::string> names() const;
  // Fills in schedulers and scheduler_infos.
  void describe(v1::Pipeline* pipeline) const;

 private:
  struct Choice {
    StepRange step_range() const;

    std::string name;
    std::unique_ptr<NoiseScheduler> scheduler;
    // What the pipeline hands to it.
    PipelineGrid grid = PipelineGrid::kNone;
  };

  NoiseSchedulers() = default;

  absl::Status add_choices(const SchedulerConfig& file,
                           config::v1::NoiseSchedulerConfig* config);
  absl::Status check(const Choice& choice,
                     const config::v1::PipelineManifest& manifest,
                     int64_t image_seq_len) const;
  absl::StatusOr<std::unique_ptr<NoiseSchedule>> make(
      const Choice& choice, NoiseScheduleOptions options) const;

  // The package's own is the first.
  std::vector<Choice> choices_;
  MuRule mu_;
};

}  // namespace ferry
