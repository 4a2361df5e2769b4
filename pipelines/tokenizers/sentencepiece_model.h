#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace ferry {

// What a SentencePiece model file (`spiece.model`, `tokenizer.model`) says.
//
// The file is a protocol buffer. It is read by hand: Debian's libsentencepiece
// carries a protobuf of its own, whose symbols clash with Debian's libprotobuf
// so that no process survives both.
struct SentencePieceModel {
  enum class Algorithm { kUnigram, kBytePairEncoding };
  enum class Type {
    kNormal = 1,
    kUnknown = 2,
    kControl = 3,
    kUserDefined = 4,
    kUnused = 5,
    kByte = 6,
  };
  struct Piece {
    std::string text;
    // Log probability, or minus the rank of a merge.
    float score = 0;
    Type type = Type::kNormal;
  };

  Algorithm algorithm = Algorithm::kUnigram;
  // A piece's id is its index.
  std::vector<Piece> pieces;
  // Unknown characters become the pieces of their bytes.
  bool byte_fallback = false;

  // Names of the control pieces that begin and end a text.
  std::string bos_piece = "<s>";
  std::string eos_piece = "</s>";

  // The normaliser's settings.
  std::string precompiled_charsmap;
  bool add_dummy_prefix = true;
  bool remove_extra_whitespaces = true;
  bool escape_whitespaces = true;
  bool treat_whitespace_as_suffix = false;
};

// Parses and checks a model file's bytes. INVALID_ARGUMENT for damage and for
// the model types WORD and CHAR.
absl::StatusOr<SentencePieceModel> parse_sentencepiece_model(
    absl::string_view bytes);

}  // namespace ferry
