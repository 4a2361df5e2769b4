#pragma once

#include <string>

#include "ferry/v1/generation_service.pb.h"
#include "ferry/v1/pipeline.pb.h"

namespace ferry {

// A text-to-image pipeline as a worker would describe it: 64 to 512 pixels in
// multiples of 16, up to 4 images and 100 steps, with guidance and a scheduler
// of each kind. For tests of validation and admission.
inline v1::Pipeline make_test_pipeline(
    const std::string& name = "pipelines/test") {
  v1::Pipeline pipeline;
  pipeline.set_name(name);
  pipeline.set_state(v1::Pipeline::STATE_READY);
  pipeline.add_tasks("text-to-image");
  v1::Limits& limits = *pipeline.mutable_limits();
  limits.set_size_multiple(16);
  limits.set_min_edge(64);
  limits.set_max_edge(512);
  limits.set_max_pixels(512 * 256);
  limits.set_max_images(4);
  limits.set_max_num_inference_steps(100);
  const auto add_scheduler = [&](const char* name,
                                 v1::SchedulerInfo::CustomSigmas sigmas,
                                 int min_steps) {
    pipeline.add_schedulers(name);
    v1::SchedulerInfo& info = *pipeline.add_scheduler_infos();
    info.set_name(name);
    info.set_custom_sigmas(sigmas);
    info.set_min_num_inference_steps(min_steps);
  };
  add_scheduler("FlowMatchEulerDiscrete",
                v1::SchedulerInfo::CUSTOM_SIGMAS_PER_STEP, 1);
  add_scheduler("EulerDiscrete", v1::SchedulerInfo::CUSTOM_SIGMAS_WITH_LAST, 1);
  add_scheduler("DPMSolverMultistep", v1::SchedulerInfo::CUSTOM_SIGMAS_REFUSED,
                1);
  add_scheduler("UniPCMultistep", v1::SchedulerInfo::CUSTOM_SIGMAS_PER_STEP, 2);
  v1::GenerationSpec& defaults = *pipeline.mutable_defaults();
  defaults.set_height(128);
  defaults.set_width(256);
  defaults.set_num_inference_steps(20);
  defaults.set_guidance_scale(3.5);
  defaults.set_negative_prompt("");
  return pipeline;
}

// A request that this pipeline takes.
inline v1::GenerateRequest make_test_request(
    const std::string& pipeline = "pipelines/test") {
  v1::GenerateRequest request;
  request.mutable_spec()->set_pipeline(pipeline);
  request.mutable_spec()->set_prompt("a red circle");
  return request;
}

}  // namespace ferry
