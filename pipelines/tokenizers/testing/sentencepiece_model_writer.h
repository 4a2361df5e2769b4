#pragma once

#include <string>

#include "pipelines/tokenizers/sentencepiece_model.h"

namespace ferry {

// Returns the bytes of a SentencePiece model file, so that tests need none.
std::string write_sentencepiece_model(const SentencePieceModel& model);

// A unigram model of <unk> (0), <s> (1), </s> (2), U+2581 (3), and from 4 on
// the letters a to z and the ten digits: each character is a token.
SentencePieceModel make_character_model();

}  // namespace ferry
