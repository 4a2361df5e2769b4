#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "pipelines/tokenizers/piece_trie.h"
#include "pipelines/tokenizers/sentencepiece_model.h"

namespace ferry {

// Brings text into the form in which a SentencePiece model was trained:
// Unicode normalisation by the model's own table, white space collapsed and
// written as U+2581.
//
// Immutable; thread-safe.
class SentencePieceNormalizer {
 public:
  // `user_defined` are the pieces that are left as they are. INVALID_ARGUMENT
  // when the model's table is damaged. Both must outlive the result.
  static absl::StatusOr<SentencePieceNormalizer> create(
      const SentencePieceModel& model, const PieceTrie& user_defined);

  // Bytes that are no UTF-8 become U+FFFD, each.
  std::string normalize(absl::string_view text) const;

 private:
  struct Prefix {
    // What is written.
    absl::string_view text;
    // Bytes of the input that it stands for.
    size_t consumed = 0;
  };

  SentencePieceNormalizer(const SentencePieceModel& model,
                          const PieceTrie& user_defined)
      : model_(&model), user_defined_(&user_defined) {}

  absl::Status decode_table();
  // The longest rule that applies to the start of `text`.
  Prefix normalize_prefix(absl::string_view text) const;
  // Looks `text`'s longest prefix up in the table; consumed is 0 without one.
  Prefix look_up(absl::string_view text) const;

  const SentencePieceModel* model_;
  const PieceTrie* user_defined_;
  // The table: a double array whose leaves are offsets into replacements_,
  // which end in NUL.
  std::vector<uint32_t> trie_;
  absl::string_view replacements_;
};

}  // namespace ferry
