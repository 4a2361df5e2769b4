#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "pipelines/tokenizers/piece_trie.h"
#include "pipelines/tokenizers/sentencepiece_model.h"
#include "pipelines/tokenizers/sentencepiece_normalizer.h"

namespace ferry {

// Turns text into the ids that the SentencePiece library gives (compared with
// it in the tests), for unigram and byte-pair models.
//
// Immutable; thread-safe.
class SentencePieceEncoder {
 public:
  // Parses a model file's bytes. INVALID_ARGUMENT when they are damaged or the
  // model is of another kind.
  static absl::StatusOr<std::unique_ptr<SentencePieceEncoder>> create(
      absl::string_view model_bytes);

  SentencePieceEncoder(const SentencePieceEncoder&) = delete;
  SentencePieceEncoder& operator=(const SentencePieceEncoder&) = delete;

  // Ids of the text's pieces, without begin and end of sentence. Takes any
  // bytes.
  std::vector<int> encode(absl::string_view text) const;

  int vocabulary_size() const { return static_cast<int>(model_.pieces.size()); }
  // Ids of begin and end of sentence; -1 when the model has none.
  int bos_id() const { return control_id(model_.bos_piece); }
  int eos_id() const { return control_id(model_.eos_piece); }

 private:
  // A stretch of normalised text and its id.
  struct Segment {
    absl::string_view text;
    int id = 0;
  };

  explicit SentencePieceEncoder(SentencePieceModel model);

  int control_id(const std::string& piece) const;
  int piece_to_id(absl::string_view piece) const;
  std::vector<Segment> segment_unigram(absl::string_view text) const;
  std::vector<Segment> segment_byte_pairs(absl::string_view text) const;

  const SentencePieceModel model_;
  // What text can become.
  const PieceTrie textual_;
  const PieceTrie user_defined_;
  std::unordered_map<std::string, int> textual_ids_;
  // Control, unknown and byte pieces.
  std::unordered_map<std::string, int> reserved_ids_;
  int unknown_id_ = 0;
  // Best and worst score of normal pieces.
  float max_score_ = 0;
  float min_score_ = 0;
  std::unique_ptr<SentencePieceNormalizer> normalizer_;
};

}  // namespace ferry
