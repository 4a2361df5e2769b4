#pragma once

#include "absl/status/status.h"
#include "ferry/config/v1/pipeline_manifest.pb.h"

namespace ferry {

// Fills in the fields whose empty value means something: the archive's and the
// scheduler's file, patch_size, limits.max_sequence_length.
void fill_manifest_defaults(config::v1::PipelineManifest* manifest);

// Checks a manifest with its defaults filled in. INVALID_ARGUMENT lists every
// field that is out of bounds, with what would be right; separated by "; ".
absl::Status check_manifest(const config::v1::PipelineManifest& manifest);

}  // namespace ferry
