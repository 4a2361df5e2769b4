#pragma once

#include <filesystem>
#include <string>

#include "absl/status/statusor.h"
#include "ferry/config/v1/pipeline_manifest.pb.h"

namespace ferry {

// A pipeline package on disk: its directory and its manifest, checked and with
// every default filled in. A value. The format: README.md of this folder.
struct Package {
  std::filesystem::path directory;
  config::v1::PipelineManifest manifest;

  // Reads `ferry.txtpb` in `directory`. Symbolic links are followed, also out
  // of the directory: whoever names a package trusts it.
  //   NOT_FOUND         there is no such directory or manifest
  //   INVALID_ARGUMENT  syntax and unknown fields, with line and column; or
  //                     all fields that are out of bounds, at once
  static absl::StatusOr<Package> load(const std::filesystem::path& directory);
};

// Parses and checks the text of a manifest, as Package::load does; for fuzzing.
absl::StatusOr<config::v1::PipelineManifest> parse_manifest(
    const std::string& text);

}  // namespace ferry
