#include "pipelines/manifest_check.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "offload/omni_diffusion_config.h"
#include "pipelines/safetensors/index.h"
#include "platform/base/utf8.h"

namespace ferry {
namespace {

using config::v1::PipelineManifest;

// Far above what any model does; they keep products inside 64 bits.
constexpr int kMaxEdge = 16384;
constexpr int kMaxImages = 64;
constexpr int kMaxSteps = 1000;
constexpr int kMaxTokens = 65536;
constexpr double kMaxGuidanceScale = 50;
constexpr double kMaxMu = 100;
constexpr size_t kMaxVersionBytes = 256;
constexpr size_t kMaxSchedulerNameBytes = 64;
constexpr int kMaxSchedulerChoices = 32;

// Gathers violations of the manifest's fields.
class Violations {
 public:
  void add(absl::string_view field, absl::string_view text) {
    texts_.push_back(absl::StrCat(field, ": ", text));
  }

  void check_range(absl::string_view field, int64_t value, int64_t min,
                   int64_t max) {
    if (value >= min && value <= max) return;
    add(field, absl::StrCat("must be ", min, " to ", max, ", is ", value));
  }

  void check_path(absl::string_view field, const std::string& value) {
    const std::filesystem::path path(value);
    const bool climbs = std::find(path.begin(), path.end(), "..") != path.end();
    if (value.empty()) {
      add(field, "must name a file");
    } else if (path.is_absolute() || climbs ||
               value.find('\0') != std::string::npos) {
      add(field, absl::StrCat("must be a relative path without \"..\", is \"",
                              absl::CHexEscape(value), "\""));
    }
  }

  absl::Status status() const {
    if (texts_.empty()) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrJoin(texts_, "; "));
  }

 private:
  std::vector<std::string> texts_;
};

void check_module(const std::string& module, Violations* violations) {
  violations->check_path("module", module);
  for (absl::string_view pickle : {".bin", ".ckpt", ".pkl", ".pickle"}) {
    if (absl::EndsWithIgnoreCase(module, pickle)) {
      violations->add("module", absl::StrCat("pickled weights (", pickle,
                                             ") are refused; export a "
                                             "TorchScript archive"));
    }
  }
}

void check_tasks(const PipelineManifest& manifest, Violations* violations) {
  if (manifest.tasks().empty()) {
    violations->add("tasks", "must name a task, \"text-to-image\"");
  }
  for (const std::string& task : manifest.tasks()) {
    if (task == "text-to-image") continue;
    violations->add("tasks", absl::StrCat("\"", absl::CHexEscape(task),
                                          "\" is unknown; there is "
                                          "\"text-to-image\""));
  }
}

// Clients get it in every list of pipelines.
void check_version(absl::string_view version, Violations* violations) {
  if (version.size() <= kMaxVersionBytes && is_utf8(version)) return;
  violations->add("version", absl::StrCat("must be at most ", kMaxVersionBytes,
                                          " bytes of UTF-8"));
}

void check_limits(const v1::Limits& limits, Violations* violations) {
  violations->check_range("limits.size_multiple", limits.size_multiple(), 1,
                          1024);
  violations->check_range("limits.max_edge", limits.max_edge(), 1, kMaxEdge);
  violations->check_range("limits.min_edge", limits.min_edge(), 1,
                          std::max(1, limits.max_edge()));
  violations->check_range("limits.max_pixels", limits.max_pixels(),
                          int64_t{limits.min_edge()} * limits.min_edge(),
                          int64_t{kMaxEdge} * kMaxEdge);
  violations->check_range("limits.max_images", limits.max_images(), 1,
                          kMaxImages);
  violations->check_range("limits.max_num_inference_steps",
                          limits.max_num_inference_steps(), 1, kMaxSteps);
  violations->check_range("limits.max_frames", limits.max_frames(), 0, 0);
}

void check_edge(absl::string_view field, int edge, const v1::Limits& limits,
                Violations* violations) {
  if (edge < limits.min_edge() || edge > limits.max_edge()) {
    violations->check_range(field, edge, limits.min_edge(), limits.max_edge());
  } else if (limits.size_multiple() > 0 && edge % limits.size_multiple() != 0) {
    violations->add(field, absl::StrCat("must be a multiple of ",
                                        limits.size_multiple(), ", is ", edge));
  }
}

void check_defaults(const PipelineManifest& manifest, Violations* violations) {
  const auto& defaults = manifest.defaults();
  const auto& limits = manifest.limits();
  check_edge("defaults.height", defaults.height(), limits, violations);
  check_edge("defaults.width", defaults.width(), limits, violations);
  const int64_t pixels = int64_t{defaults.height()} * defaults.width();
  if (pixels > limits.max_pixels()) {
    violations->add("defaults", absl::StrCat("height * width must be at most "
                                             "limits.max_pixels, is ",
                                             pixels));
  }
  violations->check_range("defaults.num_inference_steps",
                          defaults.num_inference_steps(), 1,
                          std::max(1, limits.max_num_inference_steps()));
  const double scale = defaults.guidance_scale();
  if (!(scale >= 0 && scale <= kMaxGuidanceScale)) {
    violations->add("defaults.guidance_scale",
                    absl::StrCat("must be 0 to 50, is ", scale));
  }
  if (manifest.guidance() == config::v1::GUIDANCE_NONE && scale != 0) {
    violations->add("defaults.guidance_scale",
                    "must be unset with GUIDANCE_NONE");
  }
}

bool is_scheduler_name(const std::string& name) {
  return !name.empty() && name.size() <= kMaxSchedulerNameBytes &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
                  absl::string_view("._+-").find(c) != absl::string_view::npos;
         });
}

void check_mu(const config::v1::NoiseSchedulerConfig& scheduler,
              Violations* violations) {
  if (!config::v1::Mu_IsValid(scheduler.mu())) {
    violations->add("scheduler.mu", "is unknown");
  }
  const bool is_fixed = scheduler.mu() == config::v1::MU_FIXED;
  if (is_fixed != scheduler.has_fixed_mu()) {
    violations->add("scheduler.fixed_mu",
                    is_fixed ? "must be set with MU_FIXED"
                             : "must be unset without MU_FIXED");
  } else if (is_fixed && !(std::abs(scheduler.fixed_mu()) <= kMaxMu)) {
    violations->add("scheduler.fixed_mu",
                    absl::StrCat("must be -", kMaxMu, " to ", kMaxMu, ", is ",
                                 scheduler.fixed_mu()));
  }
}

void check_scheduler(const config::v1::NoiseSchedulerConfig& scheduler,
                     Violations* violations) {
  violations->check_path("scheduler.config", scheduler.config());
  violations->check_range("scheduler.patch_size", scheduler.patch_size(), 1,
                          1024);
  if (!config::v1::SigmaGrid_IsValid(scheduler.sigma_grid())) {
    violations->add("scheduler.sigma_grid", "is unknown");
  }
  check_mu(scheduler, violations);
  violations->check_range("scheduler.choices", scheduler.choices_size(), 0,
                          kMaxSchedulerChoices);
  std::set<std::string> names;
  for (int i = 0; i < scheduler.choices_size(); ++i) {
    const std::string& name = scheduler.choices(i).name();
    const std::string field = absl::StrCat("scheduler.choices[", i, "].name");
    if (!config::v1::SigmaGrid_IsValid(scheduler.choices(i).sigma_grid())) {
      violations->add(absl::StrCat("scheduler.choices[", i, "].sigma_grid"),
                      "is unknown");
    }
    if (!is_scheduler_name(name)) {
      violations->add(field,
                      absl::StrCat("must be 1 to ", kMaxSchedulerNameBytes,
                                   " of A-Z a-z 0-9 . _ + -"));
    } else if (!names.insert(name).second) {
      violations->add(field, absl::StrCat("there is another ", name));
    }
  }
}

void check_tokenizers(const PipelineManifest& manifest,
                      Violations* violations) {
  if (manifest.tokenizers().empty()) {
    violations->add("tokenizers", "must hold at least one tokenizer");
  }
  int shortest = kMaxTokens;
  for (int i = 0; i < manifest.tokenizers_size(); ++i) {
    const auto& tokenizer = manifest.tokenizers(i);
    const std::string field = absl::StrCat("tokenizers[", i, "].");
    if (tokenizer.kind() != config::v1::Tokenizer::KIND_SENTENCEPIECE) {
      violations->add(field + "kind", "must be KIND_SENTENCEPIECE");
    }
    violations->check_path(field + "file", tokenizer.file());
    violations->check_range(field + "max_length", tokenizer.max_length(), 1,
                            kMaxTokens);
    if (tokenizer.pad_id() < 0) {
      violations->add(field + "pad_id", "must not be negative");
    }
    shortest = std::min(shortest, tokenizer.max_length());
  }
  if (!manifest.tokenizers().empty() &&
      manifest.limits().max_sequence_length() != shortest) {
    violations->add("limits.max_sequence_length",
                    absl::StrCat("must be unset, or the shortest max_length "
                                 "of the tokenizers, ",
                                 shortest));
  }
}

bool is_dotted_path(absl::string_view path) {
  return !path.empty() && path.front() != '.' && path.back() != '.' &&
         !absl::StrContains(path, "..") &&
         std::all_of(path.begin(), path.end(), [](char c) {
           return c == '.' || c == '_' ||
                  absl::ascii_isalnum(static_cast<unsigned char>(c));
         });
}

void check_weights(const PipelineManifest& manifest, Violations* violations) {
  std::set<std::string> files;
  for (int i = 0; i < manifest.weights_size(); ++i) {
    const auto& weights = manifest.weights(i);
    const std::string field = absl::StrCat("weights[", i, "].");
    if (!weights.component().empty() && !is_dotted_path(weights.component())) {
      violations->add(field + "component",
                      "must be the dotted path of a submodule");
    }
    const std::string& file = weights.file();
    violations->check_path(field + "file", file);
    if (is_pickled_weight_file(file)) {
      violations->add(field + "file",
                      absl::StrCat("\"", absl::CHexEscape(file),
                                   "\": pickled weights are refused, since to "
                                   "load them is to run them; convert them to "
                                   "safetensors"));
    } else if (!absl::EndsWith(file, ".safetensors") &&
               !absl::EndsWith(file, ".safetensors.index.json")) {
      violations->add(field + "file",
                      "must be a .safetensors file, or the "
                      ".safetensors.index.json of several");
    } else if (!files.insert(file).second) {
      violations->add(field + "file",
                      absl::StrCat("names ", absl::CHexEscape(file), " again"));
    }
  }
}

void check_ties(const PipelineManifest& manifest, Violations* violations) {
  if (!manifest.tied_parameters().empty() && manifest.weights().empty()) {
    violations->add("tied_parameters",
                    "are for weights from files; there are none in weights");
  }
  std::set<std::string> known;
  for (int i = 0; i < manifest.tied_parameters_size(); ++i) {
    const auto& names = manifest.tied_parameters(i).names();
    const std::string field = absl::StrCat("tied_parameters[", i, "].names");
    if (names.size() < 2) violations->add(field, "must hold at least two");
    for (const std::string& name : names) {
      if (!is_dotted_path(name)) {
        violations->add(field, absl::StrCat("\"", absl::CHexEscape(name),
                                            "\" is no dotted path"));
      } else if (!known.insert(name).second) {
        violations->add(field, absl::StrCat("there is another ", name));
      }
    }
  }
}

bool is_known_guidance(config::v1::Guidance guidance) {
  return guidance == config::v1::GUIDANCE_NONE ||
         guidance == config::v1::GUIDANCE_CLASSIFIER_FREE ||
         guidance == config::v1::GUIDANCE_EMBEDDED;
}

}  // namespace

void fill_manifest_defaults(PipelineManifest* manifest) {
  if (manifest->module().empty()) manifest->set_module("pipeline.pt");
  auto* const scheduler = manifest->mutable_scheduler();
  if (scheduler->config().empty()) {
    scheduler->set_config("scheduler/scheduler_config.json");
  }
  if (scheduler->patch_size() == 0) scheduler->set_patch_size(1);
  if (manifest->limits().max_sequence_length() == 0 &&
      !manifest->tokenizers().empty()) {
    int shortest = kMaxTokens;
    for (const auto& tokenizer : manifest->tokenizers()) {
      shortest = std::min(shortest, tokenizer.max_length());
    }
    manifest->mutable_limits()->set_max_sequence_length(shortest);
  }
}

absl::Status check_manifest(const PipelineManifest& manifest) {
  Violations violations;
  check_tasks(manifest, &violations);
  check_version(manifest.version(), &violations);
  check_module(manifest.module(), &violations);
  if (!config::v1::ComputeDtype_IsValid(manifest.compute_dtype())) {
    violations.add("compute_dtype", "is unknown");
  }
  if (!is_known_guidance(manifest.guidance())) {
    violations.add("guidance",
                   "must be GUIDANCE_NONE, GUIDANCE_CLASSIFIER_FREE or "
                   "GUIDANCE_EMBEDDED");
  }
  check_limits(manifest.limits(), &violations);
  check_defaults(manifest, &violations);
  check_scheduler(manifest.scheduler(), &violations);
  check_tokenizers(manifest, &violations);
  check_weights(manifest, &violations);
  check_ties(manifest, &violations);
  if (manifest.headroom_bytes() < 0 ||
      manifest.headroom_bytes() > kMaxConfiguredBytes) {
    violations.add("headroom_bytes",
                   absl::StrCat("must be 0 to ", kMaxConfiguredBytes, ", is ",
                                manifest.headroom_bytes()));
  }
  return violations.status();
}

}  // namespace ferry
