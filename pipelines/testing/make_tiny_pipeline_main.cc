// Writes a tiny pipeline package for process tests:
//   make_tiny_pipeline --output=DIR [--step_ms=N] …

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "pipelines/testing/tiny_pipeline.h"
#include "pipelines/testing/tiny_pipeline_options.h"

ABSL_FLAG(std::string, output, "", "Directory of the package.");
ABSL_FLAG(bool, traced, false, "Trace blocks instead of scripting them.");
ABSL_FLAG(int, dits, 1, "Number of DiTs, 1 or 2.");
ABSL_FLAG(int, blocks, 3, "Blocks of each DiT.");
ABSL_FLAG(std::vector<std::string>, block_order, {},
          "Blocks that a pass runs of a DiT; else each once, in order.");
ABSL_FLAG(std::vector<std::string>, encoder_order, {},
          "The same of the text encoder, which has two in each stack.");
ABSL_FLAG(int, encoder_stacks, 1, "Lists of blocks of the text encoder.");
ABSL_FLAG(bool, replicated_encoder, false,
          "All ranks have equal weights of the text encoder.");
ABSL_FLAG(double, again_below_timestep, 0,
          "A DiT runs its first block once more below it.");
ABSL_FLAG(bool, half_weights, false, "Store weights as float16.");
ABSL_FLAG(bool, attention_mask, false, "encode_prompt takes a mask.");
ABSL_FLAG(std::string, guidance, "GUIDANCE_CLASSIFIER_FREE",
          "The manifest's guidance.");
ABSL_FLAG(bool, declared, true, "Declare components and blocks.");
ABSL_FLAG(int, step_ms, 0, "Milliseconds of useless work in every step.");
ABSL_FLAG(double, nan_below_timestep, 0, "denoise returns NaN below it.");
ABSL_FLAG(double, raise_below_timestep, 0, "denoise raises below it.");
ABSL_FLAG(std::string, without_method, "", "Leave out a method.");
ABSL_FLAG(bool, short_denoise, false, "denoise takes no conditioning.");
ABSL_FLAG(bool, wrong_plan, false, "The plan names a missing container.");
ABSL_FLAG(bool, forking_block, false, "The first block forks.");
ABSL_FLAG(bool, code_only, false, "Put the weights into safetensors files.");
ABSL_FLAG(bool, sharded, false, "With --code_only: two files a component.");
ABSL_FLAG(int, odd_bytes, 0,
          "With --code_only: how far weights are from a multiple of 64 bytes.");
ABSL_FLAG(bool, tied, false, "The first two blocks have one bias.");
ABSL_FLAG(std::string, state, "",
          "What components write, and their results depend on: tiny_state.cc.");
ABSL_FLAG(int64_t, ballast_bytes, 0,
          "More weights in each block of a DiT; 22000000 in 24 blocks make a "
          "package of 528 MB.");
ABSL_FLAG(int, block_ms, 0,
          "Milliseconds of useless work in each block with such weights.");

namespace {

// Ends the program where one is no number.
std::vector<int> numbers_of(const std::vector<std::string>& texts) {
  std::vector<int> numbers;
  for (const std::string& text : texts) {
    if (!absl::SimpleAtoi(text, &numbers.emplace_back())) {
      std::fprintf(stderr, "%s is no number\n", text.c_str());
      std::exit(1);
    }
  }
  return numbers;
}

}  // namespace

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage("Writes a tiny pipeline package.");
  absl::ParseCommandLine(argc, argv);
  ferry::TinyPipelineOptions options;
  options.traced = absl::GetFlag(FLAGS_traced);
  options.dits = absl::GetFlag(FLAGS_dits);
  options.blocks = absl::GetFlag(FLAGS_blocks);
  options.block_order = numbers_of(absl::GetFlag(FLAGS_block_order));
  options.encoder_order = numbers_of(absl::GetFlag(FLAGS_encoder_order));
  options.encoder_stacks = absl::GetFlag(FLAGS_encoder_stacks);
  options.replicated_encoder = absl::GetFlag(FLAGS_replicated_encoder);
  options.again_below_timestep = absl::GetFlag(FLAGS_again_below_timestep);
  options.half_weights = absl::GetFlag(FLAGS_half_weights);
  options.attention_mask = absl::GetFlag(FLAGS_attention_mask);
  options.guidance = absl::GetFlag(FLAGS_guidance);
  options.declared = absl::GetFlag(FLAGS_declared);
  options.step_ms = absl::GetFlag(FLAGS_step_ms);
  options.nan_below_timestep = absl::GetFlag(FLAGS_nan_below_timestep);
  options.raise_below_timestep = absl::GetFlag(FLAGS_raise_below_timestep);
  options.without_method = absl::GetFlag(FLAGS_without_method);
  options.short_denoise = absl::GetFlag(FLAGS_short_denoise);
  options.wrong_plan = absl::GetFlag(FLAGS_wrong_plan);
  options.forking_block = absl::GetFlag(FLAGS_forking_block);
  options.code_only = absl::GetFlag(FLAGS_code_only);
  options.sharded = absl::GetFlag(FLAGS_sharded);
  options.odd_bytes = absl::GetFlag(FLAGS_odd_bytes);
  options.tied = absl::GetFlag(FLAGS_tied);
  options.state = absl::GetFlag(FLAGS_state);
  options.ballast_bytes = absl::GetFlag(FLAGS_ballast_bytes);
  options.block_ms = absl::GetFlag(FLAGS_block_ms);
  const absl::Status status =
      ferry::write_tiny_pipeline(absl::GetFlag(FLAGS_output), options);
  if (status.ok()) return 0;
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return 1;
}
