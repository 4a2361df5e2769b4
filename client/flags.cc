#include "client/flags.h"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "platform/base/status_macros.h"

ABSL_FLAG(std::string, address, "127.0.0.1:8001",
          "Where ferryd listens: HOST:PORT or unix:PATH.");
ABSL_FLAG(bool, json, false, "Prints results as JSON.");
ABSL_FLAG(absl::Duration, timeout, absl::InfiniteDuration(),
          "Longest time of a call, such as 90s; also the generation's "
          "deadline. Calls that answer at once take 10s at most.");

ABSL_FLAG(std::string, o, "",
          "generate: the file that gets the picture; its suffix (.png, .jpg, "
          ".jpeg, .webp, .rgb) is the format unless --format says otherwise.");
ABSL_FLAG(
    std::string, pipeline, "",
    "generate: the pipeline; the server's first one when it is left out.");
ABSL_FLAG(std::string, negative, "", "generate: what shall not be there.");
ABSL_FLAG(std::optional<int64_t>, seed, std::nullopt,
          "generate: same seed, same picture; drawn by the server when it is "
          "left out.");
ABSL_FLAG(std::optional<int32_t>, steps, std::nullopt,
          "generate: denoising steps.");
ABSL_FLAG(std::string, scheduler, "",
          "generate: the noise scheduler, of those that 'ferryctl pipelines' "
          "names; the pipeline's own when it is left out.");
ABSL_FLAG(std::vector<std::string>, sigmas, {},
          "generate: falling noise levels in place of --steps, such as "
          "1,0.8,0.5,0.2.");
ABSL_FLAG(std::optional<int32_t>, width, std::nullopt, "generate: pixels.");
ABSL_FLAG(std::optional<int32_t>, height, std::nullopt, "generate: pixels.");
ABSL_FLAG(std::optional<double>, guidance, std::nullopt,
          "generate: how closely to follow the prompt.");
ABSL_FLAG(std::optional<int32_t>, num_images, std::nullopt,
          "generate: pictures; image i has seed + i and the index i in its "
          "file's name.");
ABSL_FLAG(int32_t, priority, 0, "generate: 0 to 9, higher first.");
ABSL_FLAG(std::string, format, "",
          "generate: png, jpeg, webp or raw (RGB, 8 bits).");
ABSL_FLAG(std::optional<int32_t>, quality, std::nullopt,
          "generate: 1 to 100, of jpeg and webp; 95 when it is left out.");
ABSL_FLAG(bool, lossless, false, "generate: a webp that keeps every pixel.");
ABSL_FLAG(bool, embed_metadata, false,
          "generate: writes prompt and settings into the file.");
ABSL_FLAG(bool, omit_data, false,
          "generate: makes the picture but leaves it on the server; prints its "
          "SHA-256. Excludes -o.");
ABSL_FLAG(std::string, preview, "",
          "generate: the file that gets a small JPEG while it denoises.");
ABSL_FLAG(int32_t, preview_every, 5, "generate: steps between previews.");

namespace ferry {
namespace {

// Of a name, such as jpeg, or of a suffix, such as jpg.
std::optional<v1::OutputSpec::Format> find_format(absl::string_view name) {
  if (name == "png") return v1::OutputSpec::FORMAT_PNG;
  if (name == "jpeg" || name == "jpg") return v1::OutputSpec::FORMAT_JPEG;
  if (name == "webp") return v1::OutputSpec::FORMAT_WEBP;
  if (name == "raw" || name == "rgb") return v1::OutputSpec::FORMAT_RAW_RGB8;
  return std::nullopt;
}

// The server's own where neither the flag nor the file's name says one.
absl::StatusOr<v1::OutputSpec::Format> choose_format(const std::string& file) {
  const std::string name = absl::GetFlag(FLAGS_format);
  if (!name.empty()) {
    if (const auto format = find_format(name)) return *format;
    return absl::InvalidArgumentError(absl::StrCat(
        "--format: must be png, jpeg, webp or raw, got '", name, "'"));
  }
  const std::string suffix = std::filesystem::path(file).extension().string();
  if (suffix.empty()) return v1::OutputSpec::FORMAT_UNSPECIFIED;
  if (const auto format =
          find_format(absl::AsciiStrToLower(suffix.substr(1)))) {
    return *format;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("-o: no format is known by the suffix '", suffix,
                   "'; it must be .png, .jpg, .jpeg, .webp or .rgb, or "
                   "--format must say which one"));
}

absl::Status set_output(const std::string& file, v1::OutputSpec* output) {
  ASSIGN_OR_RETURN(const v1::OutputSpec::Format format, choose_format(file));
  output->set_format(format);
  if (const auto quality = absl::GetFlag(FLAGS_quality)) {
    output->set_quality(*quality);
  }
  output->set_lossless(absl::GetFlag(FLAGS_lossless));
  output->set_embed_metadata(absl::GetFlag(FLAGS_embed_metadata));
  output->set_omit_data(absl::GetFlag(FLAGS_omit_data));
  return absl::OkStatus();
}

void set_numbers(v1::GenerationSpec* spec) {
  const auto set = [&](const auto& value, auto setter) {
    if (value.has_value()) (spec->*setter)(*value);
  };
  set(absl::GetFlag(FLAGS_seed), &v1::GenerationSpec::set_seed);
  set(absl::GetFlag(FLAGS_steps), &v1::GenerationSpec::set_num_inference_steps);
  set(absl::GetFlag(FLAGS_width), &v1::GenerationSpec::set_width);
  set(absl::GetFlag(FLAGS_height), &v1::GenerationSpec::set_height);
  set(absl::GetFlag(FLAGS_guidance), &v1::GenerationSpec::set_guidance_scale);
  set(absl::GetFlag(FLAGS_num_images), &v1::GenerationSpec::set_num_images);
}

absl::Status set_sigmas(v1::GenerationSpec* spec) {
  for (const std::string& text : absl::GetFlag(FLAGS_sigmas)) {
    double sigma = 0;
    if (!absl::SimpleAtod(text, &sigma)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "--sigmas: must be numbers with commas between, got '", text, "'"));
    }
    spec->add_sigmas(sigma);
  }
  return absl::OkStatus();
}

}  // namespace

absl::string_view flags_file() { return __FILE__; }

absl::StatusOr<GenerateOptions> generate_options(const CommandLine& line,
                                                 const std::string& prompt) {
  GenerateOptions options;
  options.output = absl::GetFlag(FLAGS_o);
  if (absl::GetFlag(FLAGS_omit_data) != options.output.empty()) {
    return absl::InvalidArgumentError(
        options.output.empty()
            ? "-o: must name the picture's file"
            : "-o: no picture comes with --omit_data; leave one of them out");
  }
  options.request.set_priority(absl::GetFlag(FLAGS_priority));
  v1::GenerationSpec* spec = options.request.mutable_spec();
  spec->set_prompt(prompt);
  if (const std::string name = absl::GetFlag(FLAGS_pipeline); !name.empty()) {
    spec->set_pipeline(resource_name("pipelines", name));
  }
  // An empty one is sent too: the server tells where it may not be set.
  if (line.has("negative")) {
    spec->set_negative_prompt(absl::GetFlag(FLAGS_negative));
  }
  set_numbers(spec);
  spec->set_scheduler(absl::GetFlag(FLAGS_scheduler));
  RETURN_IF_ERROR(set_sigmas(spec));
  RETURN_IF_ERROR(set_output(options.output, spec->mutable_output()));
  options.preview = absl::GetFlag(FLAGS_preview);
  if (!options.preview.empty()) {
    spec->mutable_preview()->set_interval_steps(
        absl::GetFlag(FLAGS_preview_every));
  } else if (line.has("preview_every")) {
    return absl::InvalidArgumentError("--preview_every: needs --preview=FILE");
  }
  return options;
}

absl::Status refuse_generate_flags(const CommandLine& line,
                                   absl::string_view command) {
  for (const std::string& flag : line.given) {
    if (flag == "address" || flag == "json" || flag == "timeout") continue;
    return absl::InvalidArgumentError(
        absl::StrCat("--", flag, ": '", command, "' does not take it"));
  }
  return absl::OkStatus();
}

}  // namespace ferry
