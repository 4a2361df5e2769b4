#include "pipelines/tokenizers/testing/sentencepiece_model_writer.h"

#include <cstdint>
#include <cstring>

namespace ferry {
namespace {

void append_varint(uint64_t value, std::string* out) {
  for (; value >= 0x80; value >>= 7) {
    out->push_back(static_cast<char>(value | 0x80));
  }
  out->push_back(static_cast<char>(value));
}

void append_integer(uint32_t field, uint64_t value, std::string* out) {
  append_varint(field << 3, out);
  append_varint(value, out);
}

void append_bytes(uint32_t field, const std::string& bytes, std::string* out) {
  append_varint(field << 3 | 2, out);
  append_varint(bytes.size(), out);
  out->append(bytes);
}

void append_float(uint32_t field, float value, std::string* out) {
  uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof(bits));
  append_varint(field << 3 | 5, out);
  for (int i = 0; i < 4; ++i) out->push_back(static_cast<char>(bits >> 8 * i));
}

}  // namespace

std::string write_sentencepiece_model(const SentencePieceModel& model) {
  std::string out;
  for (const SentencePieceModel::Piece& piece : model.pieces) {
    std::string bytes;
    append_bytes(1, piece.text, &bytes);
    append_float(2, piece.score, &bytes);
    append_integer(3, static_cast<uint64_t>(piece.type), &bytes);
    append_bytes(1, bytes, &out);
  }
  std::string trainer;
  append_integer(
      3, model.algorithm == SentencePieceModel::Algorithm::kUnigram ? 1 : 2,
      &trainer);
  append_integer(24, model.treat_whitespace_as_suffix, &trainer);
  append_integer(35, model.byte_fallback, &trainer);
  append_bytes(46, model.bos_piece, &trainer);
  append_bytes(47, model.eos_piece, &trainer);
  append_bytes(2, trainer, &out);
  std::string normalizer;
  append_bytes(2, model.precompiled_charsmap, &normalizer);
  append_integer(3, model.add_dummy_prefix, &normalizer);
  append_integer(4, model.remove_extra_whitespaces, &normalizer);
  append_integer(5, model.escape_whitespaces, &normalizer);
  append_bytes(3, normalizer, &out);
  return out;
}

SentencePieceModel make_character_model() {
  using Type = SentencePieceModel::Type;
  SentencePieceModel model;
  model.pieces = {{"<unk>", 0, Type::kUnknown},
                  {"<s>", 0, Type::kControl},
                  {"</s>", 0, Type::kControl},
                  {"\xe2\x96\x81", -1, Type::kNormal}};
  for (char c : std::string("abcdefghijklmnopqrstuvwxyz0123456789")) {
    model.pieces.push_back({std::string(1, c), -1, Type::kNormal});
  }
  return model;
}

}  // namespace ferry
