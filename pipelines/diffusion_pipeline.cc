#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "offload/torch_status.h"
#include "pipelines/generation.h"
#include "pipelines/generation_observer.h"
#include "pipelines/noise_schedulers.h"
#include "pipelines/package.h"
#include "pipelines/pipeline.h"
#include "pipelines/tokenizers/tokenizer.h"
#include "pipelines/torchscript/root_module.h"
#include "pipelines/torchscript/torch_settings.h"
#include "pipelines/torchscript/weight_sources.h"
#include "platform/base/fault_point.h"
#include "platform/base/logging.h"
#include "platform/base/status_macros.h"

namespace ferry {
namespace {

std::optional<c10::ScalarType> to_scalar_type(config::v1::ComputeDtype dtype) {
  switch (dtype) {
    case config::v1::COMPUTE_DTYPE_FLOAT32:
      return c10::kFloat;
    case config::v1::COMPUTE_DTYPE_BFLOAT16:
      return c10::kBFloat16;
    case config::v1::COMPUTE_DTYPE_FLOAT16:
      return c10::kHalf;
    default:
      return std::nullopt;
  }
}

// Runs a generation for its own sake.
class SilentObserver : public GenerationObserver {
 public:
  bool is_cancelled() override { return false; }
  void on_progress(const v1::Progress&) override {}
  absl::Status on_preview(v1::Preview) override { return absl::OkStatus(); }
  absl::Status on_output(const v1::OutputInfo&, std::string) override {
    return absl::OkStatus();
  }
};

// Height and width with the most pixels that the limits allow; of those with as
// many, the one that is most like a square.
std::pair<int, int> largest_size(const v1::Limits& limits) {
  const int multiple = limits.size_multiple();
  std::pair<int, int> largest = {0, 0};
  const auto pixels = [](const std::pair<int, int>& size) {
    return int64_t{size.first} * size.second;
  };
  for (int edge = multiple; edge <= limits.max_edge(); edge += multiple) {
    const int64_t other = std::min<int64_t>({edge, limits.max_edge(),
                                             limits.max_pixels() / edge}) /
                          multiple * multiple;
    const std::pair<int, int> size = {static_cast<int>(other), edge};
    if (edge < limits.min_edge() || other < limits.min_edge()) continue;
    if (pixels(size) > pixels(largest)) largest = size;
  }
  return largest;
}

// The one implementation of Pipeline: TorchScript stages around a C++ loop.
class DiffusionPipeline : public Pipeline {
 public:
  DiffusionPipeline(PipelineParts parts, const PipelineOptions& options)
      : parts_(std::move(parts)), options_(options) {
    fill_description();
  }

  const v1::Pipeline& description() const override { return description_; }

  absl::StatusOr<GenerationReport> generate(
      const v1::GenerationSpec& spec, GenerationObserver& observer) override {
    TorchScope scope(options_.intra_op_threads);
    return call_torch("generation",
                      [&] { return Generation(parts_, spec, observer).run(); });
  }

  OffloadableModule& offloadable_module() override {
    return parts_.root->offloadable_module();
  }

  absl::Status warm_up() override {
    fault_point("warm_up");
    v1::GenerationSpec spec = shortest_spec();
    const v1::Limits& limits = description_.limits();
    const int multiple = limits.size_multiple();
    const int edge = (limits.min_edge() + multiple - 1) / multiple * multiple;
    if (edge <= limits.max_edge() &&
        int64_t{edge} * edge <= limits.max_pixels()) {
      spec.set_height(edge);
      spec.set_width(edge);
    }
    return run_silently(spec, "warm-up");
  }

  absl::Status try_largest() override {
    v1::GenerationSpec spec = shortest_spec();
    const auto [height, width] = largest_size(description_.limits());
    // Limits may allow no size at all.
    if (height > 0) {
      spec.set_height(height);
      spec.set_width(width);
    }
    spec.set_num_images(description_.limits().max_images());
    if (parts_.manifest.guidance() == config::v1::GUIDANCE_CLASSIFIER_FREE) {
      // Else the negative prompt is not computed.
      spec.set_guidance_scale(std::max(spec.guidance_scale(), 2.0));
    }
    return run_silently(spec, "the largest request");
  }

 private:
  // As few steps as can be, at the default size.
  v1::GenerationSpec shortest_spec() const {
    v1::GenerationSpec spec = description_.defaults();
    spec.set_prompt("warm-up");
    spec.set_num_inference_steps(
        description_.scheduler_infos(0).min_num_inference_steps());
    spec.mutable_output()->set_format(v1::OutputSpec::FORMAT_RAW_RGB8);
    return spec;
  }

  absl::Status run_silently(const v1::GenerationSpec& spec,
                            absl::string_view what) {
    SilentObserver observer;
    const absl::Status status = generate(spec, observer).status();
    if (status.ok()) return status;
    return absl::Status(status.code(),
                        absl::StrCat(parts_.manifest.module(), ": ", what, ": ",
                                     status.message()));
  }

  void fill_description() {
    const config::v1::PipelineManifest& manifest = parts_.manifest;
    *description_.mutable_tasks() = manifest.tasks();
    *description_.mutable_limits() = manifest.limits();
    parts_.schedulers->describe(&description_);
    description_.set_version(manifest.version());
    v1::GenerationSpec* const defaults = description_.mutable_defaults();
    defaults->set_height(manifest.defaults().height());
    defaults->set_width(manifest.defaults().width());
    defaults->set_num_inference_steps(
        manifest.defaults().num_inference_steps());
    defaults->set_num_images(1);
    defaults->set_scheduler(description_.schedulers(0));
    defaults->mutable_output()->set_format(v1::OutputSpec::FORMAT_PNG);
    if (manifest.guidance() != config::v1::GUIDANCE_NONE) {
      defaults->set_guidance_scale(manifest.defaults().guidance_scale());
    }
    if (manifest.guidance() == config::v1::GUIDANCE_CLASSIFIER_FREE) {
      defaults->set_negative_prompt("");
    }
  }

  const PipelineParts parts_;
  const PipelineOptions options_;
  v1::Pipeline description_;
};

WeightSources weight_sources(const config::v1::PipelineManifest& manifest) {
  WeightSources sources;
  for (const auto& weights : manifest.weights()) {
    sources.components.push_back({weights.component(), weights.file()});
  }
  for (const auto& tied : manifest.tied_parameters()) {
    sources.ties.emplace_back(tied.names().begin(), tied.names().end());
  }
  return sources;
}

// Square sizes at the bounds, and the default. Height and width.
std::vector<std::pair<int, int>> typical_sizes(
    const config::v1::PipelineManifest& manifest) {
  const v1::Limits& limits = manifest.limits();
  const int multiple = limits.size_multiple();
  const int largest = std::min(
      limits.max_edge(), static_cast<int>(std::sqrt(limits.max_pixels())));
  const int smallest_edge =
      (limits.min_edge() + multiple - 1) / multiple * multiple;
  const int largest_edge = largest / multiple * multiple;
  std::vector<std::pair<int, int>> sizes = {
      {manifest.defaults().height(), manifest.defaults().width()}};
  for (int edge : {smallest_edge, largest_edge}) {
    if (edge >= limits.min_edge() && edge <= largest) {
      sizes.emplace_back(edge, edge);
    }
  }
  return sizes;
}

// Dynamic shifting may leave steps without a length at some sizes.
absl::Status check_schedules(const PipelineParts& parts) {
  if (!parts.schedulers->depend_on_size()) return absl::OkStatus();
  for (const auto& [height, width] : typical_sizes(parts.manifest)) {
    ASSIGN_OR_RETURN(const std::vector<int64_t> shape,
                     parts.root->latent_shape(1, height, width, 1));
    // What is wrong with it is the generation's to tell.
    if (!is_latent_shape(shape, 1)) continue;
    RETURN_IF_ERROR(parts.schedulers->check_size(
        parts.manifest, image_seq_len(shape, parts.manifest)));
  }
  return absl::OkStatus();
}

absl::StatusOr<PipelineParts> load_parts(const Package& package,
                                         const PipelineOptions& how) {
  PipelineParts parts;
  parts.manifest = package.manifest;
  ASSIGN_OR_RETURN(NoiseSchedulers schedulers,
                   NoiseSchedulers::load(package.directory, &parts.manifest));
  parts.schedulers = std::make_unique<NoiseSchedulers>(std::move(schedulers));
  RootModule::Options options;
  options.compute_dtype = to_scalar_type(package.manifest.compute_dtype());
  options.weights = weight_sources(package.manifest);
  if (how.weights_are_packed) options.weights.alignment = 1;
  for (const auto& tokenizer : package.manifest.tokenizers()) {
    ASSIGN_OR_RETURN(auto loaded,
                     Tokenizer::load(tokenizer, package.directory));
    parts.tokenizers.push_back(std::move(loaded));
    options.attention_masks.push_back(tokenizer.attention_mask());
  }
  fault_point("load_module");
  ASSIGN_OR_RETURN(
      parts.root,
      RootModule::load(package.directory, package.manifest.module(), options));
  for (const std::string& warning : parts.root->warnings()) {
    log_warning(warning, {{"file", package.manifest.module()}});
  }
  RETURN_IF_ERROR(check_schedules(parts));
  return parts;
}

absl::StatusOr<std::unique_ptr<Pipeline>> load_pipeline(
    const std::filesystem::path& directory, const PipelineOptions& options) {
  fault_point("load_package");
  ASSIGN_OR_RETURN(const Package package, Package::load(directory));
  set_deterministic_mode();
  TorchScope scope(options.intra_op_threads);
  // LibTorch can throw wherever it reads what an archive holds.
  ASSIGN_OR_RETURN(PipelineParts parts,
                   call_torch(package.manifest.module(),
                              [&] { return load_parts(package, options); }));
  auto pipeline =
      std::make_unique<DiffusionPipeline>(std::move(parts), options);
  if (options.warm_up) RETURN_IF_ERROR(pipeline->warm_up());
  return pipeline;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Pipeline>> Pipeline::load(
    const std::filesystem::path& directory, const PipelineOptions& options) {
  // A lack of memory, too, is for the caller to report.
  return call_torch("load", [&] { return load_pipeline(directory, options); });
}

}  // namespace ferry
