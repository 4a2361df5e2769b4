#include "pipelines/tokenizers/sentencepiece_encoder.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>

#include "absl/strings/str_format.h"
#include "pipelines/tokenizers/byte_pair_merger.h"
#include "platform/base/status_macros.h"
#include "platform/base/utf8.h"

namespace ferry {
namespace {

using Type = SentencePieceModel::Type;

// How much worse an unknown character is than the worst piece.
constexpr float kUnknownPenalty = 10.0f;

bool is_textual(Type type) {
  return type == Type::kNormal || type == Type::kUserDefined ||
         type == Type::kUnused;
}

template <typename Predicate>
PieceTrie make_trie(const SentencePieceModel& model, Predicate wanted) {
  std::vector<std::pair<std::string, int>> pieces;
  for (size_t i = 0; i < model.pieces.size(); ++i) {
    if (wanted(model.pieces[i].type)) {
      pieces.emplace_back(model.pieces[i].text, static_cast<int>(i));
    }
  }
  return PieceTrie(std::move(pieces));
}

// The best segmentation of the text up to some byte.
struct BestPath {
  // Where its last segment starts; -1: there is none yet.
  int start = -1;
  int id = 0;
  float score = 0;
};

}  // namespace

absl::StatusOr<std::unique_ptr<SentencePieceEncoder>>
SentencePieceEncoder::create(absl::string_view model_bytes) {
  ASSIGN_OR_RETURN(SentencePieceModel model,
                   parse_sentencepiece_model(model_bytes));
  std::unique_ptr<SentencePieceEncoder> encoder(
      new SentencePieceEncoder(std::move(model)));
  ASSIGN_OR_RETURN(
      SentencePieceNormalizer normalizer,
      SentencePieceNormalizer::create(encoder->model_, encoder->user_defined_));
  encoder->normalizer_ =
      std::make_unique<SentencePieceNormalizer>(std::move(normalizer));
  return encoder;
}

SentencePieceEncoder::SentencePieceEncoder(SentencePieceModel model)
    : model_(std::move(model)),
      textual_(make_trie(model_, is_textual)),
      user_defined_(make_trie(
          model_, [](Type type) { return type == Type::kUserDefined; })) {
  max_score_ = std::numeric_limits<float>::lowest();
  min_score_ = std::numeric_limits<float>::max();
  for (size_t i = 0; i < model_.pieces.size(); ++i) {
    const SentencePieceModel::Piece& piece = model_.pieces[i];
    const int id = static_cast<int>(i);
    (is_textual(piece.type) ? textual_ids_ : reserved_ids_)
        .emplace(piece.text, id);
    if (piece.type == Type::kUnknown) unknown_id_ = id;
    if (piece.type != Type::kNormal) continue;
    max_score_ = std::max(max_score_, piece.score);
    min_score_ = std::min(min_score_, piece.score);
  }
}

int SentencePieceEncoder::control_id(const std::string& piece) const {
  const int id = piece_to_id(piece);
  return model_.pieces[static_cast<size_t>(id)].type == Type::kControl ? id
                                                                       : -1;
}

int SentencePieceEncoder::piece_to_id(absl::string_view piece) const {
  const std::string text(piece);
  const auto reserved = reserved_ids_.find(text);
  if (reserved != reserved_ids_.end()) return reserved->second;
  const auto textual = textual_ids_.find(text);
  return textual != textual_ids_.end() ? textual->second : unknown_id_;
}

std::vector<int> SentencePieceEncoder::encode(absl::string_view text) const {
  const std::string normalized = normalizer_->normalize(text);
  std::vector<int> ids;
  bool after_unknown = false;
  for (const Segment& segment :
       model_.algorithm == SentencePieceModel::Algorithm::kUnigram
           ? segment_unigram(normalized)
           : segment_byte_pairs(normalized)) {
    const bool unknown = segment.id == unknown_id_;
    if (unknown && model_.byte_fallback) {
      for (char byte : segment.text) {
        ids.push_back(piece_to_id(
            absl::StrFormat("<0x%02X>", static_cast<uint8_t>(byte))));
      }
    } else if (!(unknown && after_unknown)) {
      // A run of unknown characters is one token.
      ids.push_back(segment.id);
    }
    after_unknown = unknown;
  }
  return ids;
}

std::vector<SentencePieceEncoder::Segment>
SentencePieceEncoder::segment_unigram(absl::string_view text) const {
  const int size = static_cast<int>(text.size());
  const float unknown_score = min_score_ - kUnknownPenalty;
  std::vector<BestPath> best(text.size() + 1);
  for (int start = 0; start < size;) {
    const absl::string_view rest = text.substr(static_cast<size_t>(start));
    const float score_here = best[static_cast<size_t>(start)].score;
    const size_t character = utf8_lead_length(rest);
    bool character_is_piece = false;
    // The types are the library's: they decide between equal paths.
    const auto offer = [&](size_t length, int id, double score) {
      BestPath& path = best[static_cast<size_t>(start) + length];
      if (path.start != -1 && score <= path.score) return;
      path = {start, id, static_cast<float>(score)};
    };
    textual_.for_each_prefix(rest, [&](size_t length, int id) {
      const SentencePieceModel::Piece& piece =
          model_.pieces[static_cast<size_t>(id)];
      if (piece.type == Type::kUnused) return;
      // A user's own symbol always wins.
      const double score = piece.type == Type::kUserDefined
                               ? static_cast<float>(length) * max_score_ - 0.1
                               : piece.score;
      offer(length, id, score + score_here);
      if (length == character) character_is_piece = true;
    });
    if (!character_is_piece) {
      offer(character, unknown_id_, unknown_score + score_here);
    }
    start += static_cast<int>(character);
  }
  std::vector<Segment> segments;
  for (int end = size; end > 0; end = best[static_cast<size_t>(end)].start) {
    const BestPath& path = best[static_cast<size_t>(end)];
    segments.push_back({text.substr(static_cast<size_t>(path.start),
                                    static_cast<size_t>(end - path.start)),
                        path.id});
  }
  std::reverse(segments.begin(), segments.end());
  return segments;
}

std::vector<SentencePieceEncoder::Segment>
SentencePieceEncoder::segment_byte_pairs(absl::string_view text) const {
  std::vector<StartSymbol> start;
  while (!text.empty()) {
    const size_t user_defined = user_defined_.longest_prefix(text);
    const size_t length =
        user_defined > 0 ? user_defined : utf8_lead_length(text);
    start.push_back({text.substr(0, length), user_defined > 0});
    text.remove_prefix(length);
  }
  const auto find_rule =
      [this](absl::string_view merged) -> std::optional<MergeRule> {
    const auto found = textual_ids_.find(std::string(merged));
    if (found == textual_ids_.end()) return std::nullopt;
    const SentencePieceModel::Piece& piece =
        model_.pieces[static_cast<size_t>(found->second)];
    return MergeRule{piece.score, piece.type == Type::kUnused};
  };
  std::vector<Segment> segments;
  for (absl::string_view piece : merge_byte_pairs(start, find_rule)) {
    segments.push_back({piece, piece_to_id(piece)});
  }
  return segments;
}

}  // namespace ferry
