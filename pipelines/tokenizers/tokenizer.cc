#include "pipelines/tokenizers/tokenizer.h"

#include <fstream>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "pipelines/tokenizers/sentencepiece_encoder.h"
#include "platform/base/status_macros.h"

namespace ferry {
namespace {

constexpr std::streamsize kMaxFileBytes = 64 << 20;
constexpr int kMaxTokens = 1 << 16;

absl::StatusOr<std::string> read_file(const std::filesystem::path& file) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(file, error)) {
    return absl::NotFoundError(
        absl::StrCat(file.string(), ": is no file; expected a tokenizer"));
  }
  const uintmax_t size = std::filesystem::file_size(file, error);
  if (error || size > static_cast<uintmax_t>(kMaxFileBytes)) {
    return absl::InvalidArgumentError(
        absl::StrCat(file.string(), ": is larger than 64 MiB"));
  }
  std::string bytes(size, '\0');
  std::ifstream stream(file, std::ios::binary);
  stream.read(bytes.data(), static_cast<std::streamsize>(size));
  if (stream.gcount() != static_cast<std::streamsize>(size)) {
    return absl::InvalidArgumentError(
        absl::StrCat(file.string(), ": cannot be read"));
  }
  return bytes;
}

class SentencePieceTokenizer : public Tokenizer {
 public:
  SentencePieceTokenizer(const config::v1::Tokenizer& config,
                         std::unique_ptr<SentencePieceEncoder> encoder)
      : config_(config), encoder_(std::move(encoder)) {}

  TokenizerOutput encode(absl::string_view prompt) const override {
    const size_t length = static_cast<size_t>(config_.max_length());
    const size_t room =
        length - (config_.add_bos() ? 1 : 0) - (config_.add_eos() ? 1 : 0);
    std::vector<int> tokens = encoder_->encode(prompt);
    TokenizerOutput output;
    output.truncated = tokens.size() > room;
    if (output.truncated) tokens.resize(room);
    if (config_.add_bos()) output.ids.push_back(encoder_->bos_id());
    output.ids.insert(output.ids.end(), tokens.begin(), tokens.end());
    if (config_.add_eos()) output.ids.push_back(encoder_->eos_id());
    output.mask.assign(output.ids.size(), 1);
    output.ids.resize(length, config_.pad_id());
    output.mask.resize(length, 0);
    return output;
  }

 private:
  const config::v1::Tokenizer config_;
  const std::unique_ptr<SentencePieceEncoder> encoder_;
};

// Compares the manifest with the model.
absl::Status check_config(const config::v1::Tokenizer& config,
                          const std::string& file,
                          const SentencePieceEncoder& encoder) {
  const int special = (config.add_bos() ? 1 : 0) + (config.add_eos() ? 1 : 0);
  if (config.max_length() < 1 + special || config.max_length() > kMaxTokens) {
    return absl::InvalidArgumentError(absl::StrCat(
        "tokenizer ", file, ": max_length is ", config.max_length(),
        "; it must be ", 1 + special, " to ", kMaxTokens));
  }
  if (config.add_bos() && encoder.bos_id() < 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        file, ": has no begin-of-sentence piece, but add_bos is set"));
  }
  if (config.add_eos() && encoder.eos_id() < 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        file, ": has no end-of-sentence piece, but add_eos is set"));
  }
  if (config.pad_id() < 0 || config.pad_id() >= encoder.vocabulary_size()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "tokenizer ", file, ": pad_id is ", config.pad_id(),
        "; the vocabulary has ids 0 to ", encoder.vocabulary_size() - 1));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Tokenizer>> Tokenizer::load(
    const config::v1::Tokenizer& config,
    const std::filesystem::path& directory) {
  if (config.kind() != config::v1::Tokenizer::KIND_SENTENCEPIECE) {
    return absl::InvalidArgumentError(absl::StrCat(
        "tokenizer kind is ", config::v1::Tokenizer::Kind_Name(config.kind()),
        "; supported is KIND_SENTENCEPIECE"));
  }
  if (config.file().empty()) {
    return absl::InvalidArgumentError("tokenizer file is empty");
  }
  const std::filesystem::path file = directory / config.file();
  ASSIGN_OR_RETURN(const std::string bytes, read_file(file));
  auto encoder = SentencePieceEncoder::create(bytes);
  if (!encoder.ok()) {
    return absl::Status(
        encoder.status().code(),
        absl::StrCat(file.string(), ": ", encoder.status().message()));
  }
  RETURN_IF_ERROR(check_config(config, file.string(), **encoder));
  return std::make_unique<SentencePieceTokenizer>(config, *std::move(encoder));
}

}  // namespace ferry
