#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "server/worker/loaded_pipeline.h"

namespace ferry {

// How a FakePipeline behaves.
struct FakePipelineOptions {
  // Bytes of each output.
  int64_t output_bytes = 64;
  // Called after each step has been reported, from 1.
  std::function<void(int step)> on_step = [](int) {};
  // Goes on when it is asked to end.
  bool ignore_cancel = false;
  // Device that it says it has, and version of its package.
  std::string device = "cpu";
  std::string version = "fake";
};

// A loader that accepts every package and gives a pipeline without LibTorch. It
// reports every step, and makes outputs whose bytes depend on the spec and on
// seed + i. For tests of what is around pipelines: streams, cancels, lost
// workers.
PipelineLoader fake_pipeline_loader(FakePipelineOptions options);

// What it says of itself: text to image, 8 to 64 pixels, at most 4 images and
// 50 steps.
v1::Pipeline fake_pipeline_description();

}  // namespace ferry
