#include <string>

#include "ferry/config/v1/pipeline_manifest.pb.h"
#include "google/protobuf/text_format.h"
#include "pipelines/package.h"
#include "tests/fuzz/fuzz_targets.h"

namespace ferry {

// A package's ferry.txtpb.
void fuzz_manifest(absl::string_view input) {
  const auto manifest = parse_manifest(std::string(input));
  if (!manifest.ok()) {
    require(absl::IsInvalidArgument(manifest.status()), "INVALID_ARGUMENT");
    require(!manifest.status().message().empty(), "the error says something");
    return;
  }
  // Defaults are values that requests may have.
  const auto& limits = manifest->limits();
  const auto& defaults = manifest->defaults();
  require(defaults.height() >= limits.min_edge() &&
              defaults.height() <= limits.max_edge() &&
              defaults.width() % limits.size_multiple() == 0,
          "the default size is within the limits");
  std::string text;
  require(google::protobuf::TextFormat::PrintToString(*manifest, &text),
          "it can be printed");
  const auto again = parse_manifest(text);
  require(
      again.ok() && again->SerializeAsString() == manifest->SerializeAsString(),
      "it reads back as itself");
}

}  // namespace ferry
