#include "pipelines/safetensors/weight_files.h"

#include <map>
#include <set>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "pipelines/safetensors/index.h"
#include "pipelines/safetensors/problems.h"
#include "platform/base/status_macros.h"

namespace ferry {
namespace {

absl::StatusOr<std::vector<StoredTensor>> read_file(
    const std::filesystem::path& directory, const std::string& name) {
  ASSIGN_OR_RETURN(const std::shared_ptr<const MappedFile> file,
                   MappedFile::open(directory / name, name));
  auto entries = parse_safetensors_header(file->view(), file->bytes());
  if (!entries.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": ", entries.status().message()));
  }
  std::vector<StoredTensor> tensors;
  for (SafetensorsEntry& entry : *entries) {
    tensors.push_back({std::move(entry), file});
  }
  return tensors;
}

absl::StatusOr<std::map<std::string, std::string>> read_index(
    const std::filesystem::path& directory, const std::string& name) {
  ASSIGN_OR_RETURN(const std::shared_ptr<const MappedFile> file,
                   MappedFile::open(directory / name, name));
  if (file->bytes() > kMaxIndexBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": has ", file->bytes(), " bytes; at most ",
                     kMaxIndexBytes, " are allowed"));
  }
  auto index = parse_safetensors_index(file->view());
  if (index.ok()) return index;
  return absl::InvalidArgumentError(
      absl::StrCat(name, ": ", index.status().message()));
}

// Reads the files that an index names.
absl::StatusOr<std::vector<StoredTensor>> read_shards(
    const std::filesystem::path& directory, const std::string& index_name) {
  ASSIGN_OR_RETURN(auto index, read_index(directory, index_name));
  const std::filesystem::path folder =
      std::filesystem::path(index_name).parent_path();
  std::map<std::string, std::set<std::string>> names_of_shard;
  for (const auto& [tensor, shard] : index) {
    names_of_shard[shard].insert(tensor);
  }
  Problems problems;
  std::vector<StoredTensor> all;
  for (auto& [shard, names] : names_of_shard) {
    const std::string name = (folder / shard).string();
    auto tensors = read_file(directory, name);
    if (!tensors.ok()) {
      problems.add(absl::StrCat(tensors.status().message(), " (named by ",
                                index_name, ")"));
      continue;
    }
    for (StoredTensor& tensor : *tensors) {
      if (names.erase(tensor.entry.name) == 0) {
        problems.add(absl::StrCat(name, ": tensor ",
                                  quote_name(tensor.entry.name),
                                  " is not in it by ", index_name));
      }
      all.push_back(std::move(tensor));
    }
    for (const std::string& missing : names) {
      problems.add(absl::StrCat(name, ": lacks tensor ", quote_name(missing),
                                ", which is in it by ", index_name));
    }
  }
  RETURN_IF_ERROR(problems.status());
  return all;
}

}  // namespace

absl::StatusOr<std::vector<StoredTensor>> read_weight_files(
    const std::filesystem::path& directory, const std::string& file) {
  return absl::EndsWith(file, ".json") ? read_shards(directory, file)
                                       : read_file(directory, file);
}

}  // namespace ferry
