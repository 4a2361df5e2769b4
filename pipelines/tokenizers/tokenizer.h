#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ferry/config/v1/pipeline_manifest.pb.h"

namespace ferry {

// One encoded prompt.
struct TokenizerOutput {
  // Exactly max_length ids: tokens, then padding.
  std::vector<int64_t> ids;
  // 1 for a token, 0 for padding; as long as `ids`.
  std::vector<int64_t> mask;
  // The prompt had more tokens than fit, and was cut.
  bool truncated = false;
};

// Turns prompts into token ids, as the manifest of a package says.
//
// Immutable; thread-safe.
class Tokenizer {
 public:
  // Reads the tokenizer's file from the package in `directory`. Errors name
  // the file or the manifest's field.
  static absl::StatusOr<std::unique_ptr<Tokenizer>> load(
      const config::v1::Tokenizer& config,
      const std::filesystem::path& directory);

  virtual ~Tokenizer() = default;

  // Never fails: bytes that are no UTF-8 become U+FFFD.
  virtual TokenizerOutput encode(absl::string_view prompt) const = 0;
};

}  // namespace ferry
