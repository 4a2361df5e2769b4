#include "pipelines/tokenizers/sentencepiece_normalizer.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/strip.h"
#include "platform/base/status_macros.h"
#include "platform/base/utf8.h"

namespace ferry {
namespace {

constexpr absl::string_view kSpaceSymbol = "\xe2\x96\x81";
constexpr absl::string_view kReplacementCharacter = "\xef\xbf\xbd";

uint32_t read_uint32(absl::string_view bytes, size_t position) {
  uint32_t value = 0;
  for (size_t i = 4; i > 0; --i) {
    value = value << 8 | static_cast<uint8_t>(bytes[position + i - 1]);
  }
  return value;
}

// A unit of the double array (darts-clone's layout).
bool has_leaf(uint32_t unit) { return (unit >> 8 & 1) != 0; }
uint32_t leaf_value(uint32_t unit) { return unit & 0x7FFFFFFF; }
uint32_t label(uint32_t unit) { return unit & 0x800000FF; }
uint32_t offset(uint32_t unit) {
  return (unit >> 10) << ((unit & (1u << 9)) >> 6);
}

}  // namespace

absl::StatusOr<SentencePieceNormalizer> SentencePieceNormalizer::create(
    const SentencePieceModel& model, const PieceTrie& user_defined) {
  SentencePieceNormalizer normalizer(model, user_defined);
  RETURN_IF_ERROR(normalizer.decode_table());
  return normalizer;
}

absl::Status SentencePieceNormalizer::decode_table() {
  const absl::string_view table = model_->precompiled_charsmap;
  if (table.empty()) return absl::OkStatus();
  absl::Status damaged = absl::InvalidArgumentError(
      "is no SentencePiece model: its table of normalisations is damaged");
  if (table.size() <= 4) return damaged;
  const size_t trie_bytes = read_uint32(table, 0);
  if (trie_bytes == 0 || trie_bytes % 4 != 0 ||
      trie_bytes >= table.size() - 4 || table.back() != '\0') {
    return damaged;
  }
  for (size_t i = 0; i < trie_bytes; i += 4) {
    trie_.push_back(read_uint32(table, 4 + i));
  }
  replacements_ = table.substr(4 + trie_bytes);
  return absl::OkStatus();
}

SentencePieceNormalizer::Prefix SentencePieceNormalizer::look_up(
    absl::string_view text) const {
  Prefix longest;
  if (trie_.empty()) return longest;
  size_t position = offset(trie_[0]);
  for (size_t i = 0; i < text.size(); ++i) {
    const uint8_t byte = static_cast<uint8_t>(text[i]);
    position ^= byte;
    if (position >= trie_.size() || label(trie_[position]) != byte) break;
    const uint32_t unit = trie_[position];
    position ^= offset(unit);
    if (position >= trie_.size()) break;
    if (!has_leaf(unit)) continue;
    const size_t begin = leaf_value(trie_[position]);
    if (begin >= replacements_.size()) break;
    const size_t end = replacements_.find('\0', begin);
    longest = {replacements_.substr(begin, end - begin), i + 1};
  }
  return longest;
}

SentencePieceNormalizer::Prefix SentencePieceNormalizer::normalize_prefix(
    absl::string_view text) const {
  const size_t user_defined = user_defined_->longest_prefix(text);
  if (user_defined > 0) return {text.substr(0, user_defined), user_defined};
  const Prefix rule = look_up(text);
  if (rule.consumed > 0) return rule;
  const size_t length = utf8_valid_length(text);
  if (length == 0) return {kReplacementCharacter, 1};
  return {text.substr(0, length), length};
}

std::string SentencePieceNormalizer::normalize(absl::string_view text) const {
  const absl::string_view space =
      model_->escape_whitespaces ? kSpaceSymbol : absl::string_view(" ");
  const bool collapse = model_->remove_extra_whitespaces;
  while (collapse && !text.empty()) {
    const Prefix prefix = normalize_prefix(text);
    if (prefix.text != " ") break;
    text.remove_prefix(prefix.consumed);
  }
  std::string normalized;
  if (text.empty()) return normalized;
  const bool as_suffix = model_->treat_whitespace_as_suffix;
  if (model_->add_dummy_prefix && !as_suffix) {
    normalized.append(space.data(), space.size());
  }
  bool after_space = collapse;
  while (!text.empty()) {
    const Prefix prefix = normalize_prefix(text);
    absl::string_view part = prefix.text;
    while (after_space && absl::ConsumePrefix(&part, " ")) {
    }
    for (char c : part) {
      if (c == ' ') {
        normalized.append(space.data(), space.size());
      } else {
        normalized.push_back(c);
      }
    }
    if (!part.empty()) after_space = collapse && absl::EndsWith(part, " ");
    text.remove_prefix(prefix.consumed);
  }
  while (collapse && absl::EndsWith(normalized, space)) {
    normalized.resize(normalized.size() - space.size());
  }
  if (model_->add_dummy_prefix && as_suffix) {
    normalized.append(space.data(), space.size());
  }
  return normalized;
}

}  // namespace ferry
