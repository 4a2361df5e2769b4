#include "server/core/output_spec.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace ferry {
namespace {

using Kind = FieldViolation::Kind;
using v1::OutputSpec;

constexpr int kDefaultQuality = 95;
// The format's own limit.
constexpr int kMaxWebpEdge = 16383;
// A JPEG's Exif block is at most 64 KiB; the settings need some of it.
constexpr size_t kMaxJpegTextUnits = 32000;

// Of what Protobuf has read: UTF-8. (Other bytes would count otherwise.)
size_t utf16_units(absl::string_view text) {
  size_t units = 0;
  for (const char c : text) {
    const auto byte = static_cast<uint8_t>(c);
    const bool continues = (byte & 0xC0) == 0x80;
    units += continues ? 0 : byte >= 0xF0 ? 2 : 1;
  }
  return units;
}

// One check of one spec.
class OutputCheck {
 public:
  OutputCheck(const v1::Limits& limits, v1::GenerationSpec* spec)
      : limits_(limits), spec_(*spec), output_(*spec->mutable_output()) {}

  std::vector<FieldViolation> run() {
    if (output_.format() == OutputSpec::FORMAT_UNSPECIFIED) {
      output_.set_format(OutputSpec::FORMAT_PNG);
    }
    check_format();
    check_quality();
    check_metadata();
    return std::move(violations_);
  }

 private:
  void add(Kind kind, absl::string_view field, std::string description) {
    violations_.push_back({kind,
                           absl::StrCat("spec.output.", field),
                           std::move(description),
                           {}});
  }

  void check_format() {
    switch (output_.format()) {
      case OutputSpec::FORMAT_PNG:
      case OutputSpec::FORMAT_JPEG:
      case OutputSpec::FORMAT_RAW_RGB8:
        return;
      case OutputSpec::FORMAT_WEBP:
        check_webp_size();
        return;
      default:
        break;
    }
    if (OutputSpec::Format_IsValid(output_.format())) {
      add(Kind::kNotSupported, "format",
          absl::StrCat("this server gives FORMAT_PNG, FORMAT_JPEG, FORMAT_WEBP "
                       "and FORMAT_RAW_RGB8, not ",
                       OutputSpec::Format_Name(output_.format())));
    } else {
      add(Kind::kInvalid, "format",
          absl::StrCat("must be one of the formats, got ",
                       static_cast<int>(output_.format())));
    }
  }

  void check_webp_size() {
    const int edge = std::max(spec_.height(), spec_.width());
    if (edge <= kMaxWebpEdge || edge > limits_.max_edge()) return;
    add(Kind::kConflicting, "format",
        absl::StrCat("must not be FORMAT_WEBP, whose edges are at most ",
                     kMaxWebpEdge, " pixels, for ", spec_.width(), "x",
                     spec_.height()));
  }

  void check_quality() {
    const bool webp = output_.format() == OutputSpec::FORMAT_WEBP;
    if (output_.lossless() && !webp) {
      add(Kind::kConflicting, "lossless",
          "must be false unless format is FORMAT_WEBP");
    }
    const bool lossy = output_.format() == OutputSpec::FORMAT_JPEG ||
                       (webp && !output_.lossless());
    if (!output_.has_quality()) {
      if (lossy) output_.set_quality(kDefaultQuality);
      return;
    }
    if (output_.quality() < 1 || output_.quality() > 100) {
      violations_.push_back(
          {Kind::kInvalid,
           "spec.output.quality",
           absl::StrCat("must be 1 to 100, got ", output_.quality()),
           {{"min", "1"},
            {"max", "100"},
            {"value", absl::StrCat(output_.quality())}}});
    }
    if (!lossy) {
      add(Kind::kConflicting, "quality",
          "must be unset unless format is FORMAT_JPEG, or FORMAT_WEBP without "
          "lossless");
    }
  }

  void check_metadata() {
    if (!output_.embed_metadata()) return;
    if (output_.format() == OutputSpec::FORMAT_RAW_RGB8) {
      add(Kind::kConflicting, "embed_metadata",
          "must be false with FORMAT_RAW_RGB8, which holds no metadata");
    }
    const size_t units =
        utf16_units(spec_.prompt()) + utf16_units(spec_.negative_prompt());
    if (output_.format() == OutputSpec::FORMAT_JPEG &&
        units > kMaxJpegTextUnits) {
      add(Kind::kConflicting, "embed_metadata",
          absl::StrCat("must be false with FORMAT_JPEG when the prompts have "
                       "more than ",
                       kMaxJpegTextUnits, " UTF-16 units in all, got ", units));
    }
  }

  const v1::Limits& limits_;
  const v1::GenerationSpec& spec_;
  OutputSpec& output_;
  std::vector<FieldViolation> violations_;
};

}  // namespace

std::vector<FieldViolation> complete_output_spec(const v1::Limits& limits,
                                                 v1::GenerationSpec* spec) {
  return OutputCheck(limits, spec).run();
}

}  // namespace ferry
