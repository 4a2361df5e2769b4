#include "pipelines/package.h"

#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/text_format.h>

#include <fstream>
#include <sstream>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "pipelines/json/git_lfs.h"
#include "pipelines/manifest_check.h"
#include "platform/base/status_macros.h"

namespace ferry {
namespace {

using config::v1::PipelineManifest;

constexpr char kManifestFile[] = "ferry.txtpb";
constexpr size_t kMaxManifestBytes = 1 << 20;

absl::StatusOr<std::string> read_manifest(
    const std::filesystem::path& directory) {
  std::error_code error;
  if (!std::filesystem::is_directory(directory, error)) {
    return absl::NotFoundError(
        absl::StrCat(directory.string(), ": is no directory"));
  }
  std::ifstream stream(directory / kManifestFile, std::ios::binary);
  if (!stream) {
    return absl::NotFoundError(absl::StrCat(
        kManifestFile, ": cannot be read in ", directory.string()));
  }
  std::string text(kMaxManifestBytes + 1, '\0');
  stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(stream.gcount()));
  if (stream.bad()) {
    return absl::InvalidArgumentError(
        absl::StrCat(kManifestFile, ": is no regular file"));
  }
  if (text.size() > kMaxManifestBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        kManifestFile, ": is larger than ", kMaxManifestBytes, " bytes"));
  }
  return text;
}

// Gathers what the text format's parser complains of.
class ErrorCollector : public google::protobuf::io::ErrorCollector {
 public:
  // Counts lines and columns from zero.
  void AddError(int line, google::protobuf::io::ColumnNumber column,
                const std::string& message) override {
    errors_.push_back(absl::StrCat(kManifestFile, ":", line + 1, ":",
                                   column + 1, ": ", message));
  }

  absl::Status status() const {
    return absl::InvalidArgumentError(absl::StrJoin(errors_, "; "));
  }

 private:
  std::vector<std::string> errors_;
};

// Files without a check of their own: what reads them would tell of their
// format only.
absl::Status check_fetched(const std::filesystem::path& directory,
                           const PipelineManifest& manifest) {
  std::vector<std::string> files = {manifest.module()};
  for (const auto& tokenizer : manifest.tokenizers()) {
    files.push_back(tokenizer.file());
  }
  std::vector<std::string> problems;
  for (const std::string& file : files) {
    std::string start(kGitLfsPointerBytes, '\0');
    std::ifstream stream(directory / file, std::ios::binary);
    stream.read(start.data(), static_cast<std::streamsize>(start.size()));
    if (is_git_lfs_pointer(start)) {
      problems.push_back(absl::StrCat(file, ": ", kGitLfsDefect));
    }
  }
  if (problems.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrJoin(problems, "; "));
}

}  // namespace

absl::StatusOr<PipelineManifest> parse_manifest(const std::string& text) {
  if (is_git_lfs_pointer(text)) {
    return absl::InvalidArgumentError(
        absl::StrCat(kManifestFile, ": ", kGitLfsDefect));
  }
  PipelineManifest manifest;
  google::protobuf::TextFormat::Parser parser;
  ErrorCollector errors;
  parser.RecordErrorsTo(&errors);
  if (!parser.ParseFromString(text, &manifest)) return errors.status();
  fill_manifest_defaults(&manifest);
  if (absl::Status status = check_manifest(manifest); !status.ok()) {
    return absl::Status(status.code(),
                        absl::StrCat(kManifestFile, ": ", status.message()));
  }
  return manifest;
}

absl::StatusOr<Package> Package::load(const std::filesystem::path& directory) {
  ASSIGN_OR_RETURN(const std::string text, read_manifest(directory));
  ASSIGN_OR_RETURN(PipelineManifest manifest, parse_manifest(text));
  RETURN_IF_ERROR(check_fetched(directory, manifest));
  return Package{directory, std::move(manifest)};
}

}  // namespace ferry
