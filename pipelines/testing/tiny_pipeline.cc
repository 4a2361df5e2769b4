#include "pipelines/testing/tiny_pipeline.h"

#include <fstream>
#include <string>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/strings/substitute.h"
#include "offload/torch_status.h"
#include "pipelines/testing/code_only.h"
#include "pipelines/testing/tiny_root.h"
#include "pipelines/tokenizers/testing/sentencepiece_model_writer.h"
#include "platform/base/status_macros.h"

namespace ferry {
namespace {

constexpr char kSchedulerConfig[] = R"({
  "_class_name": "FlowMatchEulerDiscreteScheduler",
  "num_train_timesteps": 1000,
  "shift": 1.0
}
)";

std::string manifest_text(const TinyPipelineOptions& options) {
  return absl::Substitute(
      R"(tasks: "text-to-image"
version: "tiny"
guidance: $0
limits {
  size_multiple: 8
  min_edge: 16
  max_edge: 128
  max_pixels: 16384
  max_images: 4
  max_num_inference_steps: 200
}
defaults {
  height: 32
  width: 32
  num_inference_steps: 4
  $1
}
tokenizers {
  kind: KIND_SENTENCEPIECE
  file: "tokenizer/tiny.model"
  max_length: 16
  add_eos: true
  $2
}
scheduler {$4
}
$3
)",
      options.guidance,
      options.guidance == "GUIDANCE_NONE" ? "" : "guidance_scale: 3",
      options.attention_mask ? "attention_mask: true" : "",
      options.half_weights ? "compute_dtype: COMPUTE_DTYPE_FLOAT32" : "",
      options.scheduler);
}

absl::Status write_file(const std::filesystem::path& path,
                        const std::string& text) {
  std::error_code error;
  std::filesystem::create_directories(path.parent_path(), error);
  std::ofstream stream(path, std::ios::binary);
  stream << text;
  stream.close();
  if (stream) return absl::OkStatus();
  return absl::UnknownError(absl::StrCat(path.string(), ": cannot be written"));
}

}  // namespace

absl::Status write_tiny_pipeline(const std::filesystem::path& directory,
                                 const TinyPipelineOptions& options) {
  std::string manifest = manifest_text(options);
  RETURN_IF_ERROR(write_file(directory / "scheduler/scheduler_config.json",
                             kSchedulerConfig));
  RETURN_IF_ERROR(
      write_file(directory / "tokenizer/tiny.model",
                 write_sentencepiece_model(make_character_model())));
  absl::Status weights;
  RETURN_IF_ERROR(call_torch("tiny pipeline", [&] {
    const torch::jit::Module root = make_tiny_root(options);
    if (options.code_only) {
      auto lines = move_weights_to_files(directory, options, root);
      weights = lines.status();
      if (!lines.ok()) return;
      manifest += *lines;
    }
    root.save((directory / "pipeline.pt").string());
  }));
  RETURN_IF_ERROR(weights);
  return write_file(directory / "ferry.txtpb", manifest);
}

}  // namespace ferry
