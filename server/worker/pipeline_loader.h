#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "ferry/worker/v1/worker_service.pb.h"
#include "platform/os/unique_fd.h"
#include "server/worker/loaded_pipeline.h"
#include "server/worker/rank_recorders.h"
#include "server/worker/wave_line.h"

namespace ferry {

// Loads a package with LibTorch, on the platform of this machine, with the one
// offload backend that get_offload_backend() chooses: the PipelineLoader of
// the product. Twice where the group has tried to gather weights and given it
// up (OffloadBackend::confirm()). It has run the smallest request: on the host
// where it runs there, and, of a group that gathers, on all ranks together.
//
// What stands on what, so destroyed in reverse: Platform, Pipeline,
// OffloadBackend (disabled before it is destroyed).
//
// Errors: of the package, with file and attribute; INVALID_ARGUMENT for an
// offload mode that does not exist; UNIMPLEMENTED for what the platform cannot
// do, and for what ranks cannot share.
//
// `waves` and `recorders` outlive the pipeline; null for a rank without a
// group. `images` is RankGroup's, where all ranks have it.
absl::StatusOr<std::unique_ptr<LoadedPipeline>> load_pipeline(
    const worker::v1::LoadPipelineRequest& request, WaveLine* waves = nullptr,
    RankRecorders* recorders = nullptr, UniqueFd images = UniqueFd());

}  // namespace ferry
