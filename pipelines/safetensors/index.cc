#include "pipelines/safetensors/index.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "pipelines/json/strict_json.h"
#include "pipelines/safetensors/problems.h"

namespace ferry {
namespace {

// The index, its map, and whatever its metadata holds.
constexpr int kDepth = 8;
constexpr const char* kPickled[] = {".bin",    ".ckpt", ".pkl",
                                    ".pickle", ".pt",   ".pth"};

}  // namespace

bool is_pickled_weight_file(absl::string_view file) {
  return std::any_of(std::begin(kPickled), std::end(kPickled),
                     [&](absl::string_view suffix) {
                       return absl::EndsWithIgnoreCase(file, suffix);
                     });
}

std::string weight_file_defect(absl::string_view file) {
  const std::filesystem::path path((std::string(file)));
  const bool climbs = std::find(path.begin(), path.end(), "..") != path.end();
  if (file.empty() || path.is_absolute() || climbs ||
      absl::StrContains(file, absl::string_view("\0", 1))) {
    return "must be a relative path without \"..\"";
  }
  if (is_pickled_weight_file(file)) {
    return "pickled weights are refused, since to load them is to run them; "
           "convert them to safetensors";
  }
  if (!absl::EndsWith(file, ".safetensors")) {
    return "must be a .safetensors file";
  }
  return "";
}

absl::StatusOr<std::map<std::string, std::string>> parse_safetensors_index(
    absl::string_view text) {
  auto index = parse_strict_json(text, kDepth);
  if (!index.ok()) return index.status();
  const auto found = index->find("weight_map");
  if (found == index->end() || !found->is_object()) {
    return absl::InvalidArgumentError(
        "has no weight_map (an object: tensor to file)");
  }
  std::map<std::string, std::string> files;
  std::set<std::string> refused;
  Problems problems;
  for (const auto& [name, value] : found->items()) {
    if (!value.is_string()) {
      problems.add(
          absl::StrCat("weight_map: ", quote_name(name), " names no file"));
      continue;
    }
    const std::string file = value.get<std::string>();
    const std::string defect = weight_file_defect(file);
    if (defect.empty()) {
      files.emplace(name, file);
    } else if (refused.insert(file).second) {
      problems.add(
          absl::StrCat("weight_map: file ", quote_name(file), " ", defect));
    }
  }
  if (files.empty() && problems.empty()) {
    problems.add("weight_map: must name a tensor");
  }
  if (absl::Status status = problems.status(); !status.ok()) return status;
  return files;
}

}  // namespace ferry
