#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace ferry {

// What a tiny pipeline is like, and what is wrong with it.
struct TinyPipelineOptions {
  // Blocks are traced, one type each, in place of scripted ones that share a
  // type.
  bool traced = false;
  // 1 or 2. The second DiT, transformer_2, takes over below timestep 500.
  int dits = 1;
  // Blocks of each DiT.
  int blocks = 3;
  // Blocks that a pass runs of a DiT, and of the text encoder with its two:
  // some may run again, backwards or not at all. Empty: each once, in order.
  std::vector<int> block_order;
  std::vector<int> encoder_order;
  // Lists of two blocks each that the text encoder has, and runs one after the
  // other: blocks, blocks_1, …
  int encoder_stacks = 1;
  // The plan says that all ranks have equal weights of it.
  bool replicated_encoder = false;
  // Below this timestep a DiT runs its first block once more, at the end.
  double again_below_timestep = 0;
  // Weights are stored as float16, with compute_dtype FLOAT32.
  bool half_weights = false;
  // encode_prompt takes a mask.
  bool attention_mask = false;
  // GUIDANCE_NONE, GUIDANCE_CLASSIFIER_FREE or GUIDANCE_EMBEDDED.
  std::string guidance = "GUIDANCE_CLASSIFIER_FREE";
  // Fields of the manifest's scheduler. The package's own is
  // FlowMatchEulerDiscrete.
  std::string scheduler = R"(
  choices {
    name: "UniPCMultistep"
    options: '{"prediction_type": "flow_prediction", "use_flow_sigmas": true}'
  }
  choices {
    name: "DPMSolverMultistep"
    options: '{"prediction_type": "flow_prediction", "use_flow_sigmas": true}'
  }
  choices {
    name: "DPMSolverMultistepSDE"
    class_name: "DPMSolverMultistepScheduler"
    options: '{"prediction_type": "flow_prediction", "use_flow_sigmas": true,'
             ' "algorithm_type": "sde-dpmsolver++"}'
  })";
  // Declares components and blocks; else they are found by their names.
  bool declared = true;

  // The archive holds the structure only; the parameters are in safetensors
  // files, one for each component.
  bool code_only = false;
  // Of code_only: each component has two files and an index.
  bool sharded = false;
  // Of code_only: how far tensors are from a multiple of 64 bytes. Files of
  // others have 8, mostly.
  int odd_bytes = 0;
  // The first two blocks of each DiT have one bias.
  bool tied = false;
  // Each DiT has a parameter that it writes in every pass.
  bool writes_parameter = false;
  // Of tiny_state_kinds() (tiny_pipeline.h): what each DiT, the text encoder
  // and the VAE write in every pass, and what their results then depend on.
  std::string state;
  // Float32 bytes of one more parameter in each block of a DiT, all of which
  // every pass reads: makes pipelines of any size.
  int64_t ballast_bytes = 0;
  // Milliseconds that each of these blocks computes for nothing; as step_ms.
  int block_ms = 0;

  // Milliseconds that every denoise call computes for nothing, measured where
  // the package is made; longer on a busy machine. Changes no output.
  int step_ms = 0;
  // denoise returns NaN when its timestep is below. The first step has timestep
  // 1000, the last of several has 1, evenly spaced between.
  double nan_below_timestep = 0;
  // denoise multiplies matrices that do not fit when its timestep is below.
  double raise_below_timestep = 0;

  // Sources of root methods in place of their own, by name.
  std::map<std::string, std::string> method_sources;
  // The root module lacks this method.
  std::string without_method;
  // denoise takes no conditioning.
  bool short_denoise = false;
  // _offload_plan names a container that does not exist.
  bool wrong_plan = false;
  // The first block forks.
  bool forking_block = false;
};

}  // namespace ferry
