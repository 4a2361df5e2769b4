#include "tests/inputs/field_rows.h"

#include <cstdint>
#include <limits>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace ferry {
namespace {

using VerdictOf = std::function<Verdict(const Probe& probe)>;

constexpr char kGenerate[] = "ferry.v1.GenerationService/Generate";
constexpr char kGetJob[] = "ferry.v1.GenerationService/GetJob";
constexpr char kListJobs[] = "ferry.v1.GenerationService/ListJobs";
constexpr char kCancelJob[] = "ferry.v1.GenerationService/CancelJob";
constexpr char kListPipelines[] = "ferry.v1.PipelineService/ListPipelines";
constexpr char kGetPipeline[] = "ferry.v1.PipelineService/GetPipeline";
constexpr char kGetFlightRecords[] =
    "ferry.v1.PipelineService/GetFlightRecords";

constexpr int64_t kMaxInt32 = std::numeric_limits<int32_t>::max();
constexpr int64_t kMaxInt64 = std::numeric_limits<int64_t>::max();

// Limits of the tiny pipeline.
constexpr int64_t kMinEdge = 16;
constexpr int64_t kMaxEdge = 128;
constexpr int64_t kSizeMultiple = 8;
constexpr int64_t kMaxImages = 4;
constexpr int64_t kMaxSteps = 200;
// Limits of the API.
constexpr int64_t kMaxPromptBytes = 32768;
constexpr int64_t kMaxLabels = 64;
constexpr int64_t kMaxKeyBytes = 63;
constexpr int64_t kMaxValueBytes = 255;
constexpr int64_t kMaxPreviewEdge = 1024;
constexpr int64_t kMaxPageSize = 1000;
constexpr int64_t kMaxStates = 64;
constexpr double kMaxGuidance = 50;
constexpr double kMinSigma = 1e-6;
constexpr char kScheduler[] = "FlowMatchEulerDiscrete";
constexpr int64_t kMaxQueueSeconds = 300;

Verdict accepted() { return {}; }

Verdict refused(std::string field, std::string reason = "INVALID_FIELD") {
  return {grpc::StatusCode::INVALID_ARGUMENT,
          std::move(reason),
          {std::move(field)}};
}

Verdict not_found(std::string reason) {
  return {grpc::StatusCode::NOT_FOUND, std::move(reason), {}};
}

Verdict not_supported(std::string field) {
  return {grpc::StatusCode::UNIMPLEMENTED,
          "FIELD_NOT_SUPPORTED",
          {std::move(field)}};
}

Verdict not_served(const Probe&) {
  return {grpc::StatusCode::UNIMPLEMENTED, "METHOD_NOT_SUPPORTED", {}};
}

// Any value belongs to a feature that the server lacks.
FieldRow later(const std::string& field, const std::string& owner = "") {
  const std::string named = owner.empty() ? field : owner;
  return {kGenerate, field, {}, [named](const Probe& probe) {
            return probe.count == 0 ? accepted() : not_supported(named);
          }};
}

// A message that may be there, whatever it holds.
FieldRow message(const std::string& field) {
  return {kGenerate, field, {}, [](const Probe&) { return accepted(); }};
}

FieldRow range(const std::string& method, const std::string& field, int64_t min,
               int64_t max) {
  FieldRow row{method, field, {}, [=](const Probe& probe) {
                 return probe.integer >= min && probe.integer <= max
                            ? accepted()
                            : refused(field);
               }};
  row.values.integers = {min, max};
  if (min > std::numeric_limits<int64_t>::min()) {
    row.values.integers.push_back(min - 1);
  }
  if (max < kMaxInt64) row.values.integers.push_back(max + 1);
  return row;
}

FieldRow edge(const std::string& field) {
  FieldRow row = range(kGenerate, field, kMinEdge, kMaxEdge);
  for (const int64_t value :
       {kMinEdge + 1, kMinEdge + kSizeMultiple, kMinEdge - kSizeMultiple,
        kMaxEdge - 1, kMaxEdge + kSizeMultiple}) {
    row.values.integers.push_back(value);
  }
  row.verdict = [field](const Probe& probe) {
    return probe.integer >= kMinEdge && probe.integer <= kMaxEdge &&
                   probe.integer % kSizeMultiple == 0
               ? accepted()
               : refused(field);
  };
  return row;
}

// Bytes of a text, which must not hold NUL.
FieldRow text(const std::string& field, int64_t min, int64_t max) {
  FieldRow row{kGenerate, field, {}, [=](const Probe& probe) {
                 const int64_t size = static_cast<int64_t>(probe.text.size());
                 return size >= min && size <= max &&
                                probe.text.find('\0') == std::string::npos
                            ? accepted()
                            : refused(field);
               }};
  const size_t most = static_cast<size_t>(max);
  row.values.texts = {std::string(most, 'x'), std::string(most + 1, 'x'),
                      // The last character is cut by a limit that counts bytes.
                      std::string(most - 1, 'x') + "\xC3\xA9",
                      std::string(most - 2, 'x') + "\xC3\xA9"};
  return row;
}

// The name of a thing that is there, and names that resemble it.
std::vector<std::string> names_like(const std::string& name) {
  using std::string_literals::operator""s;
  std::vector<std::string> names = {name};
  for (const char* suffix :
       {" ", "/", "/x", "\n", "\xE2\x80\x8B", "\xCC\x81"}) {
    names.push_back(name + suffix);
  }
  names.push_back(name + "\0"s);
  names.push_back(" " + name);
  names.push_back("/" + name);
  names.push_back("\xEF\xBB\xBF" + name);
  names.push_back(absl::AsciiStrToUpper(name));
  return names;
}

FieldRow job_name(const std::string& method) {
  FieldRow row{method, "name", {}, [](const Probe& probe) {
                 if (probe.text == kJobPlaceholder) return accepted();
                 return absl::StartsWith(probe.text, "jobs/")
                            ? not_found("JOB_NOT_FOUND")
                            : refused("name");
               }};
  row.values.texts = {kJobPlaceholder, "jobs", "Jobs/1", "jobs/",
                      "jobs/" + std::string(100'000, '0')};
  for (const std::string& name :
       names_like("jobs/00000000000000000000000000000000")) {
    row.values.texts.push_back(name);
  }
  return row;
}

FieldRow page_token(const std::string& method, const std::string& valid) {
  FieldRow row{method, "page_token", {}, [valid](const Probe& probe) {
                 return probe.text.empty() || probe.text == valid
                            ? accepted()
                            : refused("page_token", "INVALID_PAGE_TOKEN");
               }};
  row.values.texts = {std::string(34, '0'), std::string(34, 'f'),
                      std::string(16, '0') + "00" + std::string(16, 'f')};
  if (!valid.empty()) row.values.texts.push_back(valid);
  return row;
}

FieldRow pipeline_of_spec() {
  FieldRow row{kGenerate, "spec.pipeline", {}, [](const Probe& probe) {
                 return probe.text.empty() || probe.text == kPipeline
                            ? accepted()
                            : not_found("PIPELINE_NOT_FOUND");
               }};
  row.values.texts = names_like(kPipeline);
  return row;
}

FieldRow scheduler() {
  FieldRow row{kGenerate, "spec.scheduler", {}, [](const Probe& probe) {
                 return probe.text.empty() || probe.text == kScheduler
                            ? accepted()
                            : refused("spec.scheduler", "UNKNOWN_PARAMETER");
               }};
  row.values.texts = names_like(kScheduler);
  return row;
}

FieldRow guidance_scale() {
  const std::string field = "spec.guidance_scale";
  FieldRow row{kGenerate, field, {}, [field](const Probe& probe) {
                 return probe.real >= 0 && probe.real <= kMaxGuidance
                            ? accepted()
                            : refused(field);
               }};
  row.values.reals = {kMaxGuidance, kMaxGuidance + 1e-12, -1e-12, 1 + 1e-12};
  return row;
}

FieldRow output_format() {
  const std::string field = "spec.output.format";
  return {kGenerate, field, {}, [field](const Probe& probe) {
            switch (probe.integer) {
              case 0:  // The server's default.
              case 1:  // PNG.
              case 2:  // JPEG.
              case 3:  // WebP.
              case 4:  // RGB.
                return accepted();
              case 5:
              case 6:
                return not_supported(field);
              default:
                return refused(field);
            }
          }};
}

// The test sends num_inference_steps, which excludes them.
FieldRow sigmas() {
  const std::string field = "spec.sigmas";
  FieldRow row{kGenerate, field, {}, [field](const Probe& probe) {
                 return probe.count == 1 && probe.real >= kMinSigma &&
                                probe.real <= 1
                            ? refused(field, "CONFLICTING_FIELDS")
                            : refused(field);
               }};
  row.values.reals = {kMinSigma, kMinSigma - 1e-12, 0.5, 1 + 1e-12};
  return row;
}

// PNG is without loss.
FieldRow output_lossless() {
  const std::string field = "spec.output.lossless";
  return {kGenerate, field, {}, [field](const Probe& probe) {
            return probe.integer == 0 ? accepted()
                                      : refused(field, "CONFLICTING_FIELDS");
          }};
}

FieldRow output_quality() {
  const std::string field = "spec.output.quality";
  FieldRow row = range(kGenerate, field, 1, 100);
  row.verdict = [field](const Probe& probe) {
    // PNG has none.
    return probe.integer >= 1 && probe.integer <= 100
               ? refused(field, "CONFLICTING_FIELDS")
               : refused(field);
  };
  return row;
}

FieldRow label_key() {
  FieldRow row{kGenerate, "labels.key", {}, [](const Probe& probe) {
                 const int64_t size = static_cast<int64_t>(probe.text.size());
                 return size >= 1 && size <= kMaxKeyBytes ? accepted()
                                                          : refused("labels");
               }};
  row.values.texts = {std::string(kMaxKeyBytes, 'k'),
                      std::string(kMaxKeyBytes + 1, 'k'),
                      std::string(kMaxKeyBytes - 1, 'k') + "\xC3\xA9"};
  return row;
}

FieldRow label_value() {
  // The test sends no key beside a value.
  return {kGenerate, "labels.value", {}, [](const Probe& probe) {
            Verdict verdict = refused("labels");
            if (static_cast<int64_t>(probe.text.size()) > kMaxValueBytes) {
              verdict.fields.push_back("labels[\"\"]");
            }
            return verdict;
          }};
}

FieldRow labels() {
  FieldRow row{kGenerate, "labels", {}, [](const Probe& probe) {
                 return probe.count <= kMaxLabels ? accepted()
                                                  : refused("labels");
               }};
  row.values.counts = {1, kMaxLabels, kMaxLabels + 1};
  return row;
}

FieldRow states() {
  FieldRow row{kListJobs, "states", {}, [](const Probe& probe) {
                 if (probe.count > kMaxStates) return refused("states");
                 return probe.integer >= 1 && probe.integer <= 5
                            ? accepted()
                            : refused("states[0]");
               }};
  row.values.counts = {2, kMaxStates, kMaxStates + 1};
  return row;
}

FieldRow pipeline_name(const std::string& method) {
  FieldRow row{method, "name", {}, [](const Probe& probe) {
                 if (probe.text == kPipeline) return accepted();
                 return absl::StartsWith(probe.text, "pipelines/")
                            ? not_found("PIPELINE_NOT_FOUND")
                            : refused("name");
               }};
  row.values.texts = names_like(kPipeline);
  row.values.texts.push_back("pipelines/");
  row.values.texts.push_back("pipelines/../tiny");
  return row;
}

// Without validate_only the request runs, so any value is fine.
FieldRow flag(const std::string& field) {
  return {kGenerate, field, {}, [](const Probe&) { return accepted(); }};
}

FieldRow detach() {
  return {kGenerate, "detach", {}, [](const Probe& probe) {
            return probe.integer == 0 ? accepted() : not_supported("detach");
          }};
}

FieldRow request_id() {
  return {kGenerate, "request_id", {}, [](const Probe& probe) {
            return probe.text.empty() ? accepted()
                                      : not_supported("request_id");
          }};
}

// Of a duration, the other field is 0, and 0 is no timeout.
std::vector<FieldRow> queue_timeout() {
  const std::string field = "queue_timeout";
  FieldRow seconds =
      range(kGenerate, "queue_timeout.seconds", 1, kMaxQueueSeconds);
  FieldRow nanos = range(kGenerate, "queue_timeout.nanos", 1, 999'999'999);
  for (FieldRow* row : {&seconds, &nanos}) {
    const auto inner = row->verdict;
    row->verdict = [inner, field](const Probe& probe) {
      return inner(probe).code == grpc::StatusCode::OK ? accepted()
                                                       : refused(field);
    };
  }
  // The longest that google.protobuf.Duration allows, and one beyond.
  seconds.values.integers.push_back(315'576'000'000);
  seconds.values.integers.push_back(315'576'000'001);
  return {
      {kGenerate, field, {}, [field](const Probe&) { return refused(field); }},
      seconds,
      nanos};
}

std::vector<FieldRow> generate_rows() {
  std::vector<FieldRow> rows = {
      message("spec"),
      pipeline_of_spec(),
      text("spec.prompt", 1, kMaxPromptBytes),
      text("spec.negative_prompt", 0, kMaxPromptBytes),
      edge("spec.height"),
      edge("spec.width"),
      range(kGenerate, "spec.num_inference_steps", 1, kMaxSteps),
      guidance_scale(),
      later("spec.true_cfg_scale"),
      range(kGenerate, "spec.seed", 0, kMaxInt64),
      range(kGenerate, "spec.num_images", 1, kMaxImages),
      scheduler(),
      sigmas(),
      later("spec.input_images"),
      later("spec.input_images.data", "spec.input_images"),
      later("spec.input_images.sha256", "spec.input_images"),
      later("spec.input_images.size_bytes", "spec.input_images"),
      later("spec.mask_image"),
      later("spec.mask_image.data", "spec.mask_image"),
      later("spec.mask_image.sha256", "spec.mask_image"),
      later("spec.mask_image.size_bytes", "spec.mask_image"),
      later("spec.strength"),
      later("spec.lora_adapters"),
      later("spec.lora_adapters.name", "spec.lora_adapters"),
      later("spec.lora_adapters.scale", "spec.lora_adapters"),
      later("spec.max_sequence_length"),
      later("spec.video"),
      later("spec.video.num_frames", "spec.video"),
      later("spec.video.fps", "spec.video"),
      later("spec.video.guidance_scale_2", "spec.video"),
      later("spec.video.flow_shift", "spec.video"),
      later("spec.extra_params"),
      message("spec.output"),
      output_format(),
      output_quality(),
      output_lossless(),
      flag("spec.output.omit_data"),
      flag("spec.output.embed_metadata"),
      message("spec.preview"),
      range(kGenerate, "spec.preview.interval_steps", 0, kMaxInt32),
      range(kGenerate, "spec.preview.max_edge", 0, kMaxPreviewEdge),
      request_id(),
      range(kGenerate, "priority", 0, 9),
      labels(),
      label_key(),
      label_value(),
      flag("validate_only"),
      detach(),
  };
  for (FieldRow& row : queue_timeout()) rows.push_back(std::move(row));
  return rows;
}

}  // namespace

std::vector<FieldRow> field_rows() {
  std::vector<FieldRow> rows = generate_rows();
  rows.push_back(job_name(kGetJob));
  rows.push_back(range(kListJobs, "page_size", 0, kMaxPageSize));
  rows.push_back(page_token(kListJobs, ""));
  rows.push_back(states());
  rows.push_back(job_name(kCancelJob));
  rows.push_back(range(kListPipelines, "page_size", 0, kMaxPageSize));
  rows.push_back(page_token(kListPipelines, kPipeline));
  rows.push_back(pipeline_name(kGetPipeline));
  rows.push_back(pipeline_name(kGetFlightRecords));
  for (const char* method :
       {"GenerationService/CreateJob", "GenerationService/WatchJob",
        "GenerationService/DeleteJob", "PipelineService/LoadPipeline",
        "PipelineService/UnloadPipeline"}) {
    rows.push_back({absl::StrCat("ferry.v1.", method), "", {}, not_served});
  }
  return rows;
}

}  // namespace ferry
