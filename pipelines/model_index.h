#pragma once

#include <filesystem>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace ferry {

// What the model_index.json of a diffusers folder says of a NoiseScheduler. A
// value; all is empty where there is no such file.
struct ModelIndex {
  // diffusers' class of the pipeline, such as FluxPipeline, or what else the
  // file has there, as JSON. Empty when it has nothing.
  std::string pipeline_class;
  // Class of the NoiseScheduler as the file has it; empty when it names none.
  std::string scheduler_class;

  // Reads `directory`/model_index.json, of at most 1 MiB. `component` is the
  // key of the NoiseScheduler, mostly "scheduler". INVALID_ARGUMENT names the
  // file and what is wrong with it.
  static absl::StatusOr<ModelIndex> load(const std::filesystem::path& directory,
                                         const std::string& component);
  // The same for the file's text.
  static absl::StatusOr<ModelIndex> parse(absl::string_view text,
                                          const std::string& component);
};

}  // namespace ferry
