#include "pipelines/tokenizers/sentencepiece_model.h"

#include <cmath>
#include <random>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "pipelines/tokenizers/sentencepiece_encoder.h"
#include "pipelines/tokenizers/testing/sentencepiece_model_writer.h"

namespace ferry {
namespace {

using ::testing::HasSubstr;
using Type = SentencePieceModel::Type;

void expect_refused(const SentencePieceModel& model, const char* part) {
  const absl::Status status =
      parse_sentencepiece_model(write_sentencepiece_model(model)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr(part));
}

TEST(SentencePieceModelTest, ReadsWhatWasWritten) {
  SentencePieceModel model = make_character_model();
  model.algorithm = SentencePieceModel::Algorithm::kBytePairEncoding;
  model.add_dummy_prefix = false;
  model.escape_whitespaces = false;
  model.treat_whitespace_as_suffix = true;
  model.eos_piece = "<end>";
  model.pieces[5].score = -2.5f;
  const auto read = parse_sentencepiece_model(write_sentencepiece_model(model));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->algorithm, model.algorithm);
  EXPECT_FALSE(read->add_dummy_prefix);
  EXPECT_TRUE(read->remove_extra_whitespaces);
  EXPECT_FALSE(read->escape_whitespaces);
  EXPECT_TRUE(read->treat_whitespace_as_suffix);
  EXPECT_EQ(read->eos_piece, "<end>");
  ASSERT_EQ(read->pieces.size(), model.pieces.size());
  EXPECT_EQ(read->pieces[5].score, -2.5f);
  EXPECT_EQ(read->pieces[2].type, Type::kControl);
}

TEST(SentencePieceModelTest, RefusesInconsistentPieces) {
  SentencePieceModel model = make_character_model();
  model.pieces.push_back({"a", 0, Type::kNormal});
  expect_refused(model, "the piece a stands twice");
  model.pieces.back() = {"", 0, Type::kNormal};
  expect_refused(model, "empty piece");
  model.pieces.back() = {"<unk2>", 0, Type::kUnknown};
  expect_refused(model, "exactly one unknown piece");
  model.pieces.back() = {"<0x00>", 0, Type::kByte};
  expect_refused(model, "byte_fallback");
  model.byte_fallback = true;
  expect_refused(model, "byte 0x01");
  model.byte_fallback = false;
  model.pieces.back() = {"x1", std::nanf(""), Type::kNormal};
  expect_refused(model, "finite");
}

TEST(SentencePieceModelTest, RefusesADamagedTable) {
  for (const char* table : {"abc", "\x04\x01\x01\x01more",
                            "\xff\xff\xff\xff"
                            "12345"}) {
    SentencePieceModel model = make_character_model();
    model.precompiled_charsmap = table;
    const auto encoder =
        SentencePieceEncoder::create(write_sentencepiece_model(model));
    EXPECT_THAT(std::string(encoder.status().message()), HasSubstr("table"));
  }
}

// Every cut and a thousand flipped bytes end in an error or in a model that
// can encode.
TEST(SentencePieceModelTest, SurvivesDamage) {
  SentencePieceModel model = make_character_model();
  model.precompiled_charsmap = std::string("\x08\0\0\0", 4) +
                               std::string("\0\x04\0\0\0\x04\0\0", 8) +
                               std::string("x\0", 2);
  const std::string good = write_sentencepiece_model(model);
  std::mt19937 random(7);
  for (int i = 0; i < 2000; ++i) {
    std::string bytes = good;
    if (i % 2 == 0) {
      bytes.resize(random() % good.size());
    } else {
      bytes[random() % bytes.size()] = static_cast<char>(random());
    }
    const auto encoder = SentencePieceEncoder::create(bytes);
    if (encoder.ok()) (*encoder)->encode("the quick \xf0\x9f fox \x01\x80");
  }
}

}  // namespace
}  // namespace ferry
