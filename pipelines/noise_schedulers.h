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
#include "pipelines/schedulers/noise_scheduler.h"

namespace ferry {

// The NoiseSchedulers that a package allows, by name: its own, and what the
// manifest's scheduler.choices derive from its file.
//
// Immutable, thread-safe.
class NoiseSchedulers {
 public:
  // Reads and checks all of them: one that loads makes every number of steps
  // that the manifest's limits allow. Fills in scheduler.sigma_grid.
  // Errors name the file or the field of the manifest.
  static absl::StatusOr<NoiseSchedulers> load(
      const std::filesystem::path& directory,
      config::v1::PipelineManifest* manifest);

  // What a generation uses. `spec` with an empty scheduler means the package's
  // own. Errors are INVALID_ARGUMENT, INVALID_FIELD with the field: an unknown
  // name, sigmas or a number of steps that the NoiseScheduler does not take.
  absl::StatusOr<std::unique_ptr<NoiseSchedule>> make_schedule(
      const v1::GenerationSpec& spec, int64_t image_seq_len) const;

  // Names of all, the package's own first.
  std::vector<std::string> names() const;
  // Fills in schedulers and scheduler_infos.
  void describe(v1::Pipeline* pipeline) const;

 private:
  struct Choice {
    std::string name;
    std::unique_ptr<NoiseScheduler> scheduler;
  };

  NoiseSchedulers() = default;

  absl::Status check(const Choice& choice,
                     const config::v1::PipelineManifest& manifest) const;
  absl::StatusOr<std::unique_ptr<NoiseSchedule>> make(
      const NoiseScheduler& scheduler, NoiseScheduleOptions options) const;

  // The package's own is the first.
  std::vector<Choice> choices_;
  // scheduler.sigma_grid is SIGMA_GRID_PIPELINE.
  bool pipeline_grid_ = false;
};

}  // namespace ferry
