#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "ferry/v1/generation_service.pb.h"
#include "ferry/v1/generation_spec.pb.h"
#include "ferry/v1/pipeline.pb.h"

namespace ferry {

// The server's own caps; a pipeline's limits apply besides.
struct RequestCaps {
  // Pixels of one image.
  int64_t max_pixels = int64_t{4} << 20;
  // Pixels of all images of a request.
  int64_t max_request_pixels = int64_t{40} << 20;
  int max_images = 10;
  int max_num_inference_steps = 200;
  absl::Duration queue_timeout = absl::Seconds(300);
};

// A request that may run.
struct ValidRequest {
  // Every field that applies is filled in, the seed too.
  v1::GenerationSpec spec;
  int priority = 0;
  // The request's own, or the server's.
  absl::Duration queue_timeout;
  std::map<std::string, std::string> labels;
};

// The limits that requests of a pipeline meet: the pipeline's, lowered to the
// server's caps; what the pipeline leaves 0 becomes the server's (edges: 1 and
// 16384).
v1::Limits effective_limits(const v1::Limits& limits, const RequestCaps& caps);

// Checks `request` against the rules of the .proto files and the pipeline's
// limits, and fills in its defaults. Pure but for `draw_seed`, which returns
// the seed for a request that has none: 0 to 2^63 − 1 − max_images.
//
// A pipeline without guidance is one whose defaults have no guidance_scale; one
// that takes no negative prompt has none in its defaults.
//
// Errors: field_errors() with every violation, or TASK_NOT_SUPPORTED.
absl::StatusOr<ValidRequest> validate_request(
    const v1::GenerateRequest& request, const v1::Pipeline& pipeline,
    const RequestCaps& caps, const std::function<int64_t()>& draw_seed);

// From the operating system's entropy; thread-safe. At most 2^53 − 1, so that
// tools that read JSON numbers as doubles show it exactly.
int64_t draw_random_seed();

}  // namespace ferry
