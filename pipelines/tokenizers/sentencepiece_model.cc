#include "pipelines/tokenizers/sentencepiece_model.h"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <set>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "platform/base/status_macros.h"

namespace ferry {
namespace {

// One field of a protocol buffer's wire format.
struct Field {
  uint32_t number = 0;
  // Set for wire type 0, and for 1 and 5 the bits.
  uint64_t integer = 0;
  // Set for wire type 2.
  absl::string_view bytes;
};

absl::Status damaged(absl::string_view what) {
  return absl::InvalidArgumentError(
      absl::StrCat("is no SentencePiece model: ", what));
}

// Reads the fields of one message. Stops at the first damage; status() tells.
class FieldReader {
 public:
  explicit FieldReader(absl::string_view bytes) : rest_(bytes) {}

  // Returns false at the end, and after damage.
  bool next(Field* field) {
    if (rest_.empty() || damaged_) return false;
    *field = Field();
    const uint64_t tag = read_varint();
    field->number = static_cast<uint32_t>(tag >> 3);
    if (field->number == 0 || tag >> 32 != 0) damaged_ = true;
    switch (tag & 7) {
      case 0:
        field->integer = read_varint();
        break;
      case 1:
        field->integer = read_fixed(8);
        break;
      case 2:
        field->bytes = read_bytes(read_varint());
        break;
      case 5:
        field->integer = read_fixed(4);
        break;
      default:
        damaged_ = true;
    }
    return !damaged_;
  }

  absl::Status status() const {
    return damaged_ ? damaged("a field is cut off or malformed")
                    : absl::OkStatus();
  }

 private:
  uint64_t read_varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64 && !rest_.empty(); shift += 7) {
      const uint8_t byte = static_cast<uint8_t>(rest_.front());
      rest_.remove_prefix(1);
      value |= static_cast<uint64_t>(byte & 0x7F) << shift;
      if (byte < 0x80) return value;
    }
    damaged_ = true;
    return 0;
  }

  uint64_t read_fixed(size_t size) {
    uint64_t value = 0;
    const absl::string_view bytes = read_bytes(size);
    for (size_t i = bytes.size(); i > 0; --i) {
      value = value << 8 | static_cast<uint8_t>(bytes[i - 1]);
    }
    return value;
  }

  absl::string_view read_bytes(uint64_t size) {
    if (damaged_ || size > rest_.size()) {
      damaged_ = true;
      return {};
    }
    const absl::string_view bytes = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return bytes;
  }

  absl::string_view rest_;
  bool damaged_ = false;
};

absl::Status parse_piece(absl::string_view bytes, SentencePieceModel* model) {
  SentencePieceModel::Piece piece;
  FieldReader reader(bytes);
  Field field;
  while (reader.next(&field)) {
    if (field.number == 1) piece.text = std::string(field.bytes);
    if (field.number == 2) {
      const uint32_t bits = static_cast<uint32_t>(field.integer);
      std::memcpy(&piece.score, &bits, sizeof(bits));
    }
    if (field.number == 3) {
      if (field.integer < 1 || field.integer > 6) {
        return damaged(absl::StrCat("piece type ", field.integer));
      }
      piece.type = static_cast<SentencePieceModel::Type>(field.integer);
    }
  }
  RETURN_IF_ERROR(reader.status());
  if (piece.text.empty()) return damaged("an empty piece");
  if (!std::isfinite(piece.score)) return damaged("a score is not finite");
  model->pieces.push_back(std::move(piece));
  return absl::OkStatus();
}

absl::Status parse_trainer_spec(absl::string_view bytes,
                                SentencePieceModel* model) {
  FieldReader reader(bytes);
  Field field;
  while (reader.next(&field)) {
    switch (field.number) {
      case 3:
        if (field.integer != 1 && field.integer != 2) {
          return absl::InvalidArgumentError(absl::StrCat(
              "has model_type ", field.integer,
              "; supported are 1 (unigram) and 2 (byte-pair encoding)"));
        }
        model->algorithm =
            field.integer == 1
                ? SentencePieceModel::Algorithm::kUnigram
                : SentencePieceModel::Algorithm::kBytePairEncoding;
        break;
      case 24:
        model->treat_whitespace_as_suffix = field.integer != 0;
        break;
      case 35:
        model->byte_fallback = field.integer != 0;
        break;
      case 46:
        model->bos_piece = std::string(field.bytes);
        break;
      case 47:
        model->eos_piece = std::string(field.bytes);
        break;
      default:
        break;
    }
  }
  return reader.status();
}

absl::Status parse_normalizer_spec(absl::string_view bytes,
                                   SentencePieceModel* model) {
  FieldReader reader(bytes);
  Field field;
  while (reader.next(&field)) {
    switch (field.number) {
      case 2:
        model->precompiled_charsmap = std::string(field.bytes);
        break;
      case 3:
        model->add_dummy_prefix = field.integer != 0;
        break;
      case 4:
        model->remove_extra_whitespaces = field.integer != 0;
        break;
      case 5:
        model->escape_whitespaces = field.integer != 0;
        break;
      default:
        break;
    }
  }
  return reader.status();
}

absl::Status check_model(const SentencePieceModel& model) {
  using Type = SentencePieceModel::Type;
  // SentencePiece keeps what text can become apart from what it cannot.
  std::set<absl::string_view> textual;
  std::set<absl::string_view> reserved;
  int unknown = 0;
  for (const SentencePieceModel::Piece& piece : model.pieces) {
    const bool is_textual = piece.type == Type::kNormal ||
                            piece.type == Type::kUserDefined ||
                            piece.type == Type::kUnused;
    if (!(is_textual ? textual : reserved).insert(piece.text).second) {
      return damaged(absl::StrCat("the piece ", piece.text, " stands twice"));
    }
    if (piece.type == Type::kUnknown) ++unknown;
    if (piece.type == Type::kByte && !model.byte_fallback) {
      return damaged("byte pieces without byte_fallback");
    }
  }
  if (textual.empty()) return damaged("it has no pieces");
  if (unknown != 1) return damaged("it needs exactly one unknown piece");
  for (int byte = 0; model.byte_fallback && byte < 256; ++byte) {
    if (reserved.count(absl::StrFormat("<0x%02X>", byte)) == 0) {
      return damaged(absl::StrFormat("no piece for the byte 0x%02X", byte));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<SentencePieceModel> parse_sentencepiece_model(
    absl::string_view bytes) {
  SentencePieceModel model;
  FieldReader reader(bytes);
  Field field;
  while (reader.next(&field)) {
    if (field.number == 1) RETURN_IF_ERROR(parse_piece(field.bytes, &model));
    if (field.number == 2) {
      RETURN_IF_ERROR(parse_trainer_spec(field.bytes, &model));
    }
    if (field.number == 3) {
      RETURN_IF_ERROR(parse_normalizer_spec(field.bytes, &model));
    }
  }
  RETURN_IF_ERROR(reader.status());
  RETURN_IF_ERROR(check_model(model));
  return model;
}

}  // namespace ferry
