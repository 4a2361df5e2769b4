#include "pipelines/model_index.h"

#include <fstream>
#include <nlohmann/json.hpp>
#include <system_error>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "pipelines/json/strict_json.h"

namespace ferry {
namespace {

constexpr char kFile[] = "model_index.json";
constexpr std::streamsize kMaxFileBytes = 1 << 20;
// The object, a component, and what else newer versions of diffusers keep.
constexpr int kDepth = 64;

absl::Status file_error(absl::string_view problem) {
  return absl::InvalidArgumentError(absl::StrCat(kFile, ": ", problem));
}

// diffusers' class is a text; a class of the repository's own is a list of the
// file's name and the class, and is no class of diffusers, whatever its name.
std::string class_text(const nlohmann::json& name) {
  return name.is_string() ? name.get<std::string>() : name.dump();
}

bool is_component(const nlohmann::json& value) {
  return value.is_array() && value.size() >= 2 &&
         ((value[0].is_string() && value[1].is_string()) ||
          (value[0].is_null() && value[1].is_null()));
}

}  // namespace

absl::StatusOr<ModelIndex> ModelIndex::load(
    const std::filesystem::path& directory, const std::string& component) {
  std::error_code error;
  if (!std::filesystem::exists(directory / kFile, error)) return ModelIndex();
  std::ifstream stream(directory / kFile, std::ios::binary);
  std::string text(kMaxFileBytes + 1, '\0');
  stream.read(text.data(), kMaxFileBytes + 1);
  if (!stream.is_open() || stream.bad()) return file_error("cannot be read");
  if (stream.gcount() > kMaxFileBytes) {
    return file_error("is larger than 1 MiB");
  }
  text.resize(static_cast<size_t>(stream.gcount()));
  return parse(text, component);
}

absl::StatusOr<ModelIndex> ModelIndex::parse(absl::string_view text,
                                             const std::string& component) {
  const auto values = parse_strict_json(text, kDepth);
  if (!values.ok()) return file_error(values.status().message());
  ModelIndex index;
  const auto name = values->find("_class_name");
  if (name != values->end()) index.pipeline_class = class_text(*name);
  const auto found = values->find(component);
  if (component.empty() || found == values->end()) return index;
  if (!is_component(*found)) {
    return file_error(
        absl::StrCat(component,
                     ": must be a list of library and class, such "
                     "as [\"diffusers\", "
                     "\"EulerDiscreteScheduler\"]"));
  }
  if ((*found)[1].is_string()) {
    index.scheduler_class = (*found)[1].get<std::string>();
  }
  return index;
}

}  // namespace ferry
