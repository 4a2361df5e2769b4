#include "server/worker/testing/fake_pipeline.h"

#include <openssl/sha.h>

#include <string>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "platform/base/error_info.h"
#include "platform/base/status_macros.h"
#include "server/worker/rank_recorders.h"
#include "server/worker/wave_line.h"

namespace ferry {
namespace {

std::string hex_sha256(const std::string& data) {
  unsigned char digest[SHA256_DIGEST_LENGTH];
  SHA256(reinterpret_cast<const unsigned char*>(data.data()), data.size(),
         digest);
  return absl::BytesToHexString(
      absl::string_view(reinterpret_cast<const char*>(digest), sizeof(digest)));
}

class FakePipeline final : public LoadedPipeline {
 public:
  explicit FakePipeline(FakePipelineOptions options)
      : options_(std::move(options)) {}

  v1::Pipeline description() const override {
    v1::Pipeline description = fake_pipeline_description();
    description.mutable_offload()->set_strategy("none");
    description.mutable_offload()->set_device(device());
    description.set_version(options_.version);
    return description;
  }

  std::string device() const override { return options_.device; }

  absl::StatusOr<GenerationReport> generate(
      const v1::GenerationSpec& spec, GenerationObserver& observer) override {
    v1::Progress progress;
    progress.set_total_steps(spec.num_inference_steps());
    progress.set_stage(v1::Progress::STAGE_TEXT_ENCODE);
    observer.on_progress(progress);
    progress.set_stage(v1::Progress::STAGE_DENOISE);
    for (int step = 1; step <= spec.num_inference_steps(); ++step) {
      RETURN_IF_ERROR(check_cancel(observer));
      progress.set_step(step);
      progress.set_fraction(static_cast<double>(step) /
                            spec.num_inference_steps());
      observer.on_progress(progress);
      const int interval = spec.preview().interval_steps();
      if (interval > 0 && step % interval == 0) {
        RETURN_IF_ERROR(observer.on_preview(make_preview(step)));
      }
      options_.on_step(step);
    }
    RETURN_IF_ERROR(check_cancel(observer));
    for (int i = 0; i < spec.num_images(); ++i) {
      RETURN_IF_ERROR(send_output(spec, i, observer));
    }
    GenerationReport report;
    report.timings.mutable_denoise()->set_nanos(1000);
    return report;
  }

 private:
  absl::Status check_cancel(GenerationObserver& observer) const {
    if (!options_.ignore_cancel && observer.is_cancelled()) {
      return make_error(absl::StatusCode::kCancelled, "the generation ended",
                        {"CANCELLED", {}});
    }
    return absl::OkStatus();
  }

  static v1::Preview make_preview(int step) {
    v1::Preview preview;
    preview.set_step(step);
    preview.set_data("preview");
    preview.set_mime_type("image/jpeg");
    preview.set_height(8);
    preview.set_width(8);
    return preview;
  }

  absl::Status send_output(const v1::GenerationSpec& spec, int i,
                           GenerationObserver& observer) const {
    const std::string pattern =
        absl::StrCat(spec.prompt(), " ", spec.seed() + i, " ", spec.width(),
                     "x", spec.height(), " ", spec.num_inference_steps(), "; ");
    std::string data;
    while (static_cast<int64_t>(data.size()) < options_.output_bytes) {
      data += pattern;
    }
    data.resize(static_cast<size_t>(options_.output_bytes));
    v1::OutputInfo info;
    info.set_index(i);
    info.set_mime_type("image/png");
    info.set_height(spec.height());
    info.set_width(spec.width());
    info.set_seed(spec.seed() + i);
    info.set_size_bytes(options_.output_bytes);
    info.set_sha256(hex_sha256(data));
    return observer.on_output(info, std::move(data));
  }

  const FakePipelineOptions options_;
};

}  // namespace

PipelineLoader fake_pipeline_loader(FakePipelineOptions options) {
  return
      [options = std::move(options)](const auto&, WaveLine*, RankRecorders*) {
        return absl::StatusOr<std::unique_ptr<LoadedPipeline>>(
            std::make_unique<FakePipeline>(options));
      };
}

v1::Pipeline fake_pipeline_description() {
  v1::Pipeline description;
  description.add_tasks("text-to-image");
  v1::Limits& limits = *description.mutable_limits();
  limits.set_size_multiple(8);
  limits.set_min_edge(8);
  limits.set_max_edge(64);
  limits.set_max_pixels(4096);
  limits.set_max_images(4);
  limits.set_max_num_inference_steps(50);
  limits.set_max_sequence_length(16);
  description.add_schedulers("FlowMatchEulerDiscrete");
  v1::GenerationSpec& defaults = *description.mutable_defaults();
  defaults.set_height(64);
  defaults.set_width(64);
  defaults.set_num_inference_steps(4);
  defaults.set_guidance_scale(1);
  defaults.set_negative_prompt("");
  defaults.set_num_images(1);
  defaults.set_scheduler("FlowMatchEulerDiscrete");
  defaults.mutable_output()->set_format(v1::OutputSpec::FORMAT_PNG);
  description.set_version("fake");
  return description;
}

}  // namespace ferry
