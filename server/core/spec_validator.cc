#include "server/core/spec_validator.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <limits>
#include <random>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "server/core/errors.h"
#include "server/core/known_fields.h"
#include "server/core/output_spec.h"
#include "server/core/proto_time.h"
#include "server/core/rpc_status.h"
#include "server/core/sampling_spec.h"

namespace ferry {
namespace {

using Kind = FieldViolation::Kind;

constexpr size_t kMaxPromptBytes = 32768;
constexpr size_t kMaxLabels = 64;
constexpr size_t kMaxLabelKeyBytes = 63;
constexpr size_t kMaxLabelValueBytes = 255;
constexpr int kMaxPriority = 9;
constexpr double kMaxGuidance = 50;
constexpr int kMaxPreviewEdge = 1024;
constexpr int kDefaultPreviewEdge = 256;
constexpr int kMaxEdge = 16384;
constexpr int64_t kMaxSeed = std::numeric_limits<int64_t>::max();
constexpr absl::string_view kTask = "text-to-image";

// One check of one request: collects violations while it fills in the spec.
class SpecCheck {
 public:
  SpecCheck(const v1::GenerateRequest& request, const v1::Pipeline& pipeline,
            const RequestCaps& caps)
      : request_(request),
        pipeline_(pipeline),
        caps_(caps),
        limits_(effective_limits(pipeline.limits(), caps)) {
    result_.spec = request.spec();
  }

  void run() {
    check_envelope();
    check_prompts();
    check_size();
    check_sampling();
    check_output();
    check_preview();
    check_unsupported();
    if (auto unknown = find_unknown_field(request_); unknown.has_value()) {
      violations_.push_back(*std::move(unknown));
    }
  }

  std::vector<FieldViolation>& violations() { return violations_; }
  // Valid when there are no violations; the seed is not drawn yet.
  ValidRequest& result() { return result_; }

 private:
  using Metadata = std::map<std::string, std::string>;

  void add(Kind kind, absl::string_view field, std::string description,
           Metadata metadata = {}) {
    violations_.push_back({kind, std::string(field), std::move(description),
                           std::move(metadata)});
  }

  // Adds a violation unless min <= value <= max.
  bool check_range(absl::string_view field, int64_t value, int64_t min,
                   int64_t max) {
    if (value >= min && value <= max) return true;
    add(Kind::kInvalid, field,
        absl::StrCat("must be ", min, " to ", max, ", got ", value),
        {{"min", absl::StrCat(min)},
         {"max", absl::StrCat(max)},
         {"value", absl::StrCat(value)}});
    return false;
  }

  void check_text(absl::string_view field, const std::string& text) {
    if (text.size() > kMaxPromptBytes) {
      add(Kind::kInvalid, field,
          absl::StrCat("must be at most ", kMaxPromptBytes, " bytes, got ",
                       text.size()),
          {{"max", absl::StrCat(kMaxPromptBytes)},
           {"value", absl::StrCat(text.size())}});
    } else if (text.find('\0') != std::string::npos) {
      add(Kind::kInvalid, field, "must not contain NUL");
    }
  }

  void check_envelope();
  void check_labels();
  void check_queue_timeout();
  void check_prompts();
  void check_size();
  bool check_edge(absl::string_view field, int value);
  void check_pixels();
  void check_sampling();
  void check_guidance();
  void check_negative_prompt();
  void check_seed();
  void check_output();
  void check_preview();
  void check_unsupported();

  const v1::GenerateRequest& request_;
  const v1::Pipeline& pipeline_;
  const RequestCaps& caps_;
  const v1::Limits limits_;
  ValidRequest result_;
  std::vector<FieldViolation> violations_;
};

void SpecCheck::check_envelope() {
  if (check_range("priority", request_.priority(), 0, kMaxPriority)) {
    result_.priority = request_.priority();
  }
  check_queue_timeout();
  check_labels();
}

void SpecCheck::check_queue_timeout() {
  result_.queue_timeout = caps_.queue_timeout;
  if (!request_.has_queue_timeout()) return;
  const absl::StatusOr<absl::Duration> timeout =
      from_proto(request_.queue_timeout());
  const std::string rule =
      absl::StrCat("must be more than 0 and at most ",
                   absl::FormatDuration(caps_.queue_timeout));
  if (!timeout.ok()) {
    add(Kind::kInvalid, "queue_timeout",
        absl::StrCat(rule, "; ", timeout.status().message()));
  } else if (*timeout <= absl::ZeroDuration() ||
             *timeout > caps_.queue_timeout) {
    add(Kind::kInvalid, "queue_timeout",
        absl::StrCat(rule, ", got ", absl::FormatDuration(*timeout)),
        {{"max", absl::FormatDuration(caps_.queue_timeout)},
         {"value", absl::FormatDuration(*timeout)}});
  } else {
    result_.queue_timeout = *timeout;
  }
}

void SpecCheck::check_labels() {
  if (request_.labels_size() > static_cast<int>(kMaxLabels)) {
    add(Kind::kInvalid, "labels",
        absl::StrCat("must hold at most ", kMaxLabels, " labels, got ",
                     request_.labels_size()));
    return;
  }
  result_.labels.insert(request_.labels().begin(), request_.labels().end());
  for (const auto& [key, value] : result_.labels) {
    if (key.empty() || key.size() > kMaxLabelKeyBytes) {
      add(Kind::kInvalid, "labels",
          absl::StrCat("a key must be 1 to ", kMaxLabelKeyBytes, " bytes, got ",
                       key.size()));
    }
    if (value.size() > kMaxLabelValueBytes) {
      add(Kind::kInvalid,
          absl::StrCat("labels[\"", clean_text(key, kMaxLabelKeyBytes), "\"]"),
          absl::StrCat("must be at most ", kMaxLabelValueBytes, " bytes, got ",
                       value.size()));
    }
  }
}

void SpecCheck::check_prompts() {
  v1::GenerationSpec& spec = result_.spec;
  spec.set_pipeline(pipeline_.name());
  if (spec.prompt().empty()) {
    add(Kind::kInvalid, "spec.prompt",
        absl::StrCat("is required, 1 to ", kMaxPromptBytes, " bytes"));
  }
  check_text("spec.prompt", spec.prompt());
  if (!spec.has_negative_prompt()) return;
  check_text("spec.negative_prompt", spec.negative_prompt());
  if (!pipeline_.defaults().has_negative_prompt()) {
    add(Kind::kInvalid, "spec.negative_prompt",
        absl::StrCat("must be unset: ", pipeline_.name(),
                     " has no classifier-free guidance"));
  }
}

void SpecCheck::check_size() {
  v1::GenerationSpec& spec = result_.spec;
  if (!spec.has_height()) spec.set_height(pipeline_.defaults().height());
  if (!spec.has_width()) spec.set_width(pipeline_.defaults().width());
  if (!spec.has_num_images()) spec.set_num_images(1);
  const bool height = check_edge("spec.height", spec.height());
  const bool width = check_edge("spec.width", spec.width());
  const bool images = check_range("spec.num_images", spec.num_images(), 1,
                                  limits_.max_images());
  if (height && width && images) check_pixels();
}

bool SpecCheck::check_edge(absl::string_view field, int value) {
  if (!check_range(field, value, limits_.min_edge(), limits_.max_edge())) {
    return false;
  }
  const int multiple = limits_.size_multiple();
  if (value % multiple == 0) return true;
  // The legal values on both sides.
  const int below = value / multiple * multiple;
  const int above = below + multiple;
  std::string nearest;
  if (below >= limits_.min_edge() && below > 0) {
    nearest = absl::StrCat(below);
  }
  if (above <= limits_.max_edge()) {
    absl::StrAppend(&nearest, nearest.empty() ? "" : " or ", above);
  }
  add(Kind::kInvalid, field,
      absl::StrCat("must be a multiple of ", multiple, ", got ", value,
                   nearest.empty() ? "" : "; nearest: ", nearest),
      {{"multiple", absl::StrCat(multiple)},
       {"value", absl::StrCat(value)},
       {"nearest", nearest}});
  return false;
}

void SpecCheck::check_pixels() {
  const v1::GenerationSpec& spec = result_.spec;
  const auto limit = [&](absl::string_view field, const char* what,
                         int64_t value, int64_t max) {
    if (value <= max) return true;
    add(Kind::kLimit, field,
        absl::StrCat(what, " must be at most ", max, ", got ", value),
        {{"limit", absl::StrCat(max)}, {"value", absl::StrCat(value)}});
    return false;
  };
  const int64_t pixels = int64_t{spec.height()} * spec.width();
  if (limit("spec.height", "height times width", pixels,
            limits_.max_pixels())) {
    limit("spec.num_images", "height times width times num_images",
          pixels * spec.num_images(), caps_.max_request_pixels);
  }
}

void SpecCheck::check_sampling() {
  for (FieldViolation& violation :
       complete_sampling_spec(pipeline_, limits_, &result_.spec)) {
    violations_.push_back(std::move(violation));
  }
  check_guidance();
  check_negative_prompt();
  check_seed();
}

void SpecCheck::check_guidance() {
  v1::GenerationSpec& spec = result_.spec;
  const bool has_guidance = pipeline_.defaults().has_guidance_scale();
  if (!spec.has_guidance_scale()) {
    if (has_guidance) {
      spec.set_guidance_scale(pipeline_.defaults().guidance_scale());
    }
  } else if (!has_guidance) {
    add(Kind::kInvalid, "spec.guidance_scale",
        absl::StrCat("must be unset: ", pipeline_.name(), " has no guidance"));
  } else if (!(spec.guidance_scale() >= 0 &&
               spec.guidance_scale() <= kMaxGuidance)) {
    // The negation catches NaN.
    add(Kind::kInvalid, "spec.guidance_scale",
        absl::StrCat("must be a number from 0 to ", kMaxGuidance, ", got ",
                     spec.guidance_scale()),
        {{"min", "0"},
         {"max", absl::StrCat(kMaxGuidance)},
         {"value", absl::StrCat(spec.guidance_scale())}});
  }
}

// One that cannot change the picture is refused, so that nobody wonders why it
// does not. An empty one asks for nothing.
void SpecCheck::check_negative_prompt() {
  v1::GenerationSpec& spec = result_.spec;
  const double scale = spec.guidance_scale();
  if (!spec.has_negative_prompt() || !spec.has_guidance_scale() ||
      !pipeline_.defaults().has_negative_prompt() ||
      !(scale >= 0 && scale <= 1)) {
    return;
  }
  if (spec.negative_prompt().empty()) {
    spec.clear_negative_prompt();
    return;
  }
  add(Kind::kInvalid, "spec.negative_prompt",
      absl::StrCat("must be unset: it has no effect at a guidance_scale of 1 "
                   "or less, which is ",
                   scale));
}

void SpecCheck::check_seed() {
  const v1::GenerationSpec& spec = result_.spec;
  if (!spec.has_seed()) return;
  if (!check_range("spec.seed", spec.seed(), 0, kMaxSeed)) return;
  // Image i uses seed + i.
  if (spec.num_images() > 1 && spec.seed() > kMaxSeed - spec.num_images() + 1) {
    add(Kind::kInvalid, "spec.seed",
        absl::StrCat("must be at most ", kMaxSeed - spec.num_images() + 1,
                     " for ", spec.num_images(), " images, got ", spec.seed()));
  }
}

void SpecCheck::check_output() {
  for (FieldViolation& violation :
       complete_output_spec(limits_, &result_.spec)) {
    violations_.push_back(std::move(violation));
  }
}

void SpecCheck::check_preview() {
  if (!result_.spec.has_preview()) return;
  v1::PreviewSpec& preview = *result_.spec.mutable_preview();
  check_range("spec.preview.interval_steps", preview.interval_steps(), 0,
              std::numeric_limits<int32_t>::max());
  check_range("spec.preview.max_edge", preview.max_edge(), 0, kMaxPreviewEdge);
  if (preview.max_edge() == 0) preview.set_max_edge(kDefaultPreviewEdge);
}

void SpecCheck::check_unsupported() {
  const v1::GenerationSpec& spec = request_.spec();
  const std::initializer_list<std::pair<const char*, bool>> fields = {
      {"request_id", !request_.request_id().empty()},
      {"detach", request_.detach()},
      {"spec.true_cfg_scale", spec.has_true_cfg_scale()},
      {"spec.input_images", spec.input_images_size() > 0},
      {"spec.mask_image", spec.has_mask_image()},
      {"spec.strength", spec.has_strength()},
      {"spec.lora_adapters", spec.lora_adapters_size() > 0},
      {"spec.max_sequence_length", spec.has_max_sequence_length()},
      {"spec.video", spec.has_video()},
      {"spec.extra_params", spec.has_extra_params()},
  };
  for (const auto& [field, is_set] : fields) {
    if (is_set) {
      add(Kind::kNotSupported, field, "is not supported by this server");
    }
  }
}

// The lower of a cap and a limit that is 0 when the pipeline sets none.
template <typename T>
T lower(T limit, T cap) {
  return limit > 0 ? std::min(limit, cap) : cap;
}

}  // namespace

v1::Limits effective_limits(const v1::Limits& limits, const RequestCaps& caps) {
  v1::Limits result = limits;
  result.set_size_multiple(std::max(1, limits.size_multiple()));
  result.set_min_edge(std::max(1, limits.min_edge()));
  result.set_max_edge(lower(limits.max_edge(), kMaxEdge));
  result.set_max_pixels(lower<int64_t>(limits.max_pixels(), caps.max_pixels));
  result.set_max_images(lower(limits.max_images(), caps.max_images));
  result.set_max_num_inference_steps(
      lower(limits.max_num_inference_steps(), caps.max_num_inference_steps));
  return result;
}

absl::StatusOr<ValidRequest> validate_request(
    const v1::GenerateRequest& request, const v1::Pipeline& pipeline,
    const RequestCaps& caps, const std::function<int64_t()>& draw_seed) {
  SpecCheck check(request, pipeline, caps);
  check.run();
  if (!check.violations().empty()) return field_errors(check.violations());
  if (std::find(pipeline.tasks().begin(), pipeline.tasks().end(), kTask) ==
      pipeline.tasks().end()) {
    return task_not_supported(pipeline.name(), kTask);
  }
  ValidRequest result = std::move(check.result());
  if (!result.spec.has_seed()) result.spec.set_seed(draw_seed());
  return result;
}

int64_t draw_random_seed() {
  std::random_device device;
  const uint64_t bits = (uint64_t{device()} << 32) | device();
  return static_cast<int64_t>(bits >> 11);
}

}  // namespace ferry
