#include "pipelines/generation.h"

#include <ATen/ops/from_blob.h>
#include <ATen/ops/full.h>
#include <google/protobuf/duration.pb.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "pipelines/images/encode_image.h"
#include "pipelines/images/jpeg_encoder.h"
#include "pipelines/images/latent_preview.h"
#include "pipelines/images/tensor_to_image.h"
#include "pipelines/output_text.h"
#include "pipelines/schedulers/noise_source.h"
#include "platform/base/check.h"
#include "platform/base/clock.h"
#include "platform/base/error_info.h"
#include "platform/base/fault_point.h"
#include "platform/base/sha256.h"
#include "platform/base/status_macros.h"

namespace ferry {
namespace {

constexpr int kPreviewQuality = 80;
constexpr int kDefaultPreviewEdge = 256;

// Where the stages lie in Progress.fraction. Steps share what is between
// kDenoiseStart and kDecodeStart.
constexpr double kDenoiseStart = 0.02;
constexpr double kDecodeStart = 0.95;
constexpr double kEncodeStart = 0.99;

double fraction_of(v1::Progress::Stage stage, int step, int steps) {
  switch (stage) {
    case v1::Progress::STAGE_DENOISE:
      return kDenoiseStart + (kDecodeStart - kDenoiseStart) * step / steps;
    case v1::Progress::STAGE_DECODE:
      return kDecodeStart;
    case v1::Progress::STAGE_ENCODE:
      return kEncodeStart;
    default:
      return 0;
  }
}

bool wants_classifier_free(const PipelineParts& parts,
                           const v1::GenerationSpec& spec) {
  return parts.manifest.guidance() == config::v1::GUIDANCE_CLASSIFIER_FREE &&
         spec.guidance_scale() > 1;
}

absl::Status invalid_field(absl::string_view field, absl::string_view text) {
  return make_error(absl::StatusCode::kInvalidArgument,
                    absl::StrCat(field, ": ", text),
                    {"INVALID_FIELD", {{"field", std::string(field)}}});
}

absl::Status module_error(absl::string_view text) {
  return make_error(absl::StatusCode::kInternal, text, {"INTERNAL", {}});
}

// Adds the time of its life to a field of Timings.
class StageTimer {
 public:
  explicit StageTimer(google::protobuf::Duration* duration)
      : duration_(duration), start_(Clock::real().monotonic()) {}
  ~StageTimer() {
    const int64_t nanos =
        absl::ToInt64Nanoseconds(Clock::real().monotonic() - start_);
    duration_->set_seconds(nanos / 1000000000);
    duration_->set_nanos(static_cast<int32_t>(nanos % 1000000000));
  }
  StageTimer(const StageTimer&) = delete;
  StageTimer& operator=(const StageTimer&) = delete;

 private:
  google::protobuf::Duration* const duration_;
  const absl::Duration start_;
};

at::Tensor to_tensor(const std::vector<int64_t>& rows, int64_t batch) {
  const auto columns = static_cast<int64_t>(rows.size()) / batch;
  return at::from_blob(const_cast<int64_t*>(rows.data()), {batch, columns},
                       at::kLong)
      .clone();
}

}  // namespace

Generation::Generation(const PipelineParts& parts,
                       const v1::GenerationSpec& spec,
                       GenerationObserver& observer)
    : parts_(parts),
      spec_(spec),
      observer_(observer),
      num_images_(spec.num_images()),
      classifier_free_(wants_classifier_free(parts, spec)) {}

absl::StatusOr<GenerationReport> Generation::run() {
  FERRY_CHECK(!std::exchange(has_run_, true));
  RETURN_IF_ERROR(check_spec());
  RETURN_IF_ERROR(parts_.root->begin_generation(spec_.seed()));
  ASSIGN_OR_RETURN(
      latent_shape_,
      parts_.root->latent_shape(num_images_, spec_.height(), spec_.width(), 1));
  const std::vector<int64_t>& shape = latent_shape_;
  if (!is_latent_shape(shape, num_images_)) {
    return module_error(absl::StrCat(
        "latent_shape: returned [", absl::StrJoin(shape, ", "),
        "]; expected [batch, channels, (frames,) height, width] for a batch "
        "of ",
        num_images_));
  }
  RETURN_IF_ERROR(make_schedule());

  RETURN_IF_ERROR(encode_prompts());
  RETURN_IF_ERROR(denoise());
  RETURN_IF_ERROR(decode());
  RETURN_IF_ERROR(encode_outputs());
  return std::move(report_);
}

absl::Status Generation::make_schedule() {
  ASSIGN_OR_RETURN(schedule_,
                   parts_.schedulers->make_schedule(
                       spec_, image_seq_len(latent_shape_, parts_.manifest)));
  return absl::OkStatus();
}

absl::Status Generation::check_steps() const {
  const int max = parts_.manifest.limits().max_num_inference_steps();
  if (spec_.sigmas().empty()) {
    const int steps = spec_.num_inference_steps();
    if (steps >= 1 && steps <= max) return absl::OkStatus();
    return invalid_field("spec.num_inference_steps", "is out of bounds");
  }
  if (spec_.has_num_inference_steps()) {
    return invalid_field("spec.sigmas", "excludes num_inference_steps");
  }
  // Some schedulers take the level after the last step too.
  if (spec_.sigmas_size() > max + 1) {
    return invalid_field("spec.sigmas", "holds too many levels");
  }
  return absl::OkStatus();
}

absl::Status Generation::check_spec() const {
  const v1::Limits& limits = parts_.manifest.limits();
  if (spec_.num_images() < 1 || spec_.num_images() > limits.max_images()) {
    return invalid_field("spec.num_images", "is out of bounds");
  }
  RETURN_IF_ERROR(check_steps());
  for (const int edge : {spec_.height(), spec_.width()}) {
    if (edge < limits.min_edge() || edge > limits.max_edge() ||
        edge % limits.size_multiple() != 0) {
      return invalid_field(
          edge == spec_.height() ? "spec.height" : "spec.width",
          "is out of bounds");
    }
  }
  if (int64_t{spec_.height()} * spec_.width() > limits.max_pixels()) {
    return invalid_field("spec.height", "times the width is out of bounds");
  }
  const auto guidance = parts_.manifest.guidance();
  if (guidance == config::v1::GUIDANCE_NONE && spec_.has_guidance_scale()) {
    return invalid_field("spec.guidance_scale",
                         "the pipeline has no guidance; leave it unset");
  }
  if (guidance != config::v1::GUIDANCE_CLASSIFIER_FREE &&
      spec_.has_negative_prompt()) {
    return invalid_field(
        "spec.negative_prompt",
        "the pipeline has no classifier-free guidance; leave it unset");
  }
  if (!classifier_free_ && !spec_.negative_prompt().empty()) {
    return invalid_field(
        "spec.negative_prompt",
        "has no effect at a guidance_scale of 1 or less; leave it unset");
  }
  return absl::OkStatus();
}

absl::Status Generation::check_cancelled() {
  if (!observer_.is_cancelled()) return absl::OkStatus();
  return make_error(absl::StatusCode::kCancelled, "cancelled",
                    {"CANCELLED", {}});
}

absl::Status Generation::begin(v1::Progress::Stage stage, int step) {
  RETURN_IF_ERROR(check_cancelled());
  v1::Progress progress;
  progress.set_stage(stage);
  progress.set_step(step);
  progress.set_total_steps(schedule_->num_steps());
  progress.set_fraction(fraction_of(stage, step, schedule_->num_steps()));
  observer_.on_progress(progress);
  return absl::OkStatus();
}

std::vector<at::Tensor> Generation::tokenize(
    const std::vector<std::string>& prompts) {
  const auto batch = static_cast<int64_t>(prompts.size());
  std::vector<at::Tensor> inputs;
  for (size_t i = 0; i < parts_.tokenizers.size(); ++i) {
    std::vector<int64_t> ids;
    std::vector<int64_t> mask;
    for (const std::string& prompt : prompts) {
      const TokenizerOutput output = parts_.tokenizers[i]->encode(prompt);
      ids.insert(ids.end(), output.ids.begin(), output.ids.end());
      mask.insert(mask.end(), output.mask.begin(), output.mask.end());
      report_.prompt_truncated |= output.truncated;
    }
    inputs.push_back(to_tensor(ids, batch));
    if (parts_.manifest.tokenizers(static_cast<int>(i)).attention_mask()) {
      inputs.push_back(to_tensor(mask, batch));
    }
  }
  return inputs;
}

absl::Status Generation::encode_prompts() {
  StageTimer timer(report_.timings.mutable_text_encode());
  RETURN_IF_ERROR(begin(v1::Progress::STAGE_TEXT_ENCODE, 0));
  std::vector<std::string> prompts;
  if (classifier_free_) prompts.push_back(spec_.negative_prompt());
  prompts.push_back(spec_.prompt());
  fault_point("encode_prompt");
  ASSIGN_OR_RETURN(conditioning_,
                   parts_.root->encode_prompt(tokenize(prompts)));
  const auto rows = static_cast<int64_t>(prompts.size());
  for (auto& [key, tensor] : conditioning_) {
    if (!tensor.defined() || tensor.dim() == 0 || tensor.size(0) != rows) {
      return module_error(
          absl::StrCat("encode_prompt: the first dimension of \"", key,
                       "\" must be the batch, ", rows));
    }
    if (num_images_ > 1) tensor = tensor.repeat_interleave(num_images_, 0);
  }
  if (parts_.manifest.guidance() == config::v1::GUIDANCE_EMBEDDED) {
    conditioning_["guidance"] =
        at::full({num_images_}, spec_.guidance_scale(), at::kFloat);
  }
  return absl::OkStatus();
}

absl::Status Generation::denoise() {
  StageTimer timer(report_.timings.mutable_denoise());
  NoiseSource noise(spec_.seed(), num_images_);
  DenoisingInputs inputs;
  inputs.latent_shape = latent_shape_;
  inputs.conditioning = std::move(conditioning_);
  inputs.classifier_free = classifier_free_;
  inputs.guidance_scale = spec_.guidance_scale();
  ASSIGN_OR_RETURN(
      latents_, run_denoising_loop(*parts_.root, inputs, *schedule_, noise,
                                   [this](int step, const at::Tensor& latents) {
                                     return on_step(step, latents);
                                   }));
  return absl::OkStatus();
}

absl::Status Generation::on_step(int step, const at::Tensor& latents) {
  RETURN_IF_ERROR(begin(v1::Progress::STAGE_DENOISE, step));
  const int interval = spec_.preview().interval_steps();
  if (interval > 0 && step > 0 && step % interval == 0) {
    return send_previews(step, latents);
  }
  return absl::OkStatus();
}

absl::Status Generation::send_previews(int step, const at::Tensor& latents) {
  const int max_edge = spec_.preview().max_edge() > 0
                           ? spec_.preview().max_edge()
                           : kDefaultPreviewEdge;
  for (int i = 0; i < num_images_; ++i) {
    ASSIGN_OR_RETURN(const RgbImage image,
                     latent_preview(latents.select(0, i), max_edge));
    ASSIGN_OR_RETURN(std::string data, encode_jpeg(image, kPreviewQuality));
    v1::Preview preview;
    preview.set_index(i);
    preview.set_step(step);
    preview.set_data(std::move(data));
    preview.set_mime_type("image/jpeg");
    preview.set_height(image.height);
    preview.set_width(image.width);
    RETURN_IF_ERROR(observer_.on_preview(std::move(preview)));
  }
  return absl::OkStatus();
}

// One picture at a time: the decoder is what needs most memory.
absl::Status Generation::decode() {
  StageTimer timer(report_.timings.mutable_vae_decode());
  RETURN_IF_ERROR(begin(v1::Progress::STAGE_DECODE, schedule_->num_steps()));
  for (int i = 0; i < num_images_; ++i) {
    RETURN_IF_ERROR(check_cancelled());
    fault_point("decode");
    const at::Tensor latents =
        latents_.narrow(0, i, 1).to(parts_.root->compute_dtype());
    ASSIGN_OR_RETURN(const at::Tensor pictures, parts_.root->decode(latents));
    const std::vector<int64_t> expected = {1, 3, spec_.height(), spec_.width()};
    if (!pictures.defined() || pictures.sizes() != at::IntArrayRef(expected)) {
      return module_error(absl::StrCat("decode: must return [",
                                       absl::StrJoin(expected, ", "), "]"));
    }
    auto image = tensor_to_image(pictures.select(0, 0));
    if (absl::IsFailedPrecondition(image.status())) {
      return non_finite_error("decoded pictures", schedule_->num_steps());
    }
    if (!image.ok()) {
      return module_error(absl::StrCat("decode: ", image.status().message()));
    }
    images_.push_back(*std::move(image));
  }
  return absl::OkStatus();
}

absl::Status Generation::encode_outputs() {
  StageTimer timer(report_.timings.mutable_encode());
  RETURN_IF_ERROR(begin(v1::Progress::STAGE_ENCODE, schedule_->num_steps()));
  v1::GenerationSpec told = spec_;
  told.set_num_inference_steps(schedule_->num_steps());
  if (told.scheduler().empty()) {
    told.set_scheduler(parts_.schedulers->names().front());
  }
  for (int i = 0; i < num_images_; ++i) {
    RETURN_IF_ERROR(check_cancelled());
    std::string text;
    if (spec_.output().embed_metadata()) {
      text = make_output_text(told, spec_.seed() + i);
    }
    fault_point("encode_image");
    ASSIGN_OR_RETURN(EncodedImage encoded,
                     encode_image(spec_.output(), images_[i], text));
    v1::OutputInfo info;
    info.set_index(i);
    info.set_mime_type(encoded.mime_type);
    info.set_height(spec_.height());
    info.set_width(spec_.width());
    info.set_seed(spec_.seed() + i);
    info.set_size_bytes(static_cast<int64_t>(encoded.data.size()));
    info.set_sha256(sha256_hex(encoded.data));
    RETURN_IF_ERROR(observer_.on_output(info, std::move(encoded.data)));
    images_[i] = {};
  }
  return absl::OkStatus();
}

}  // namespace ferry
