#include "pipelines/tokenizers/tokenizer.h"

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "pipelines/tokenizers/testing/sentencepiece_model_writer.h"

namespace ferry {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class TokenizerTest : public testing::Test {
 protected:
  TokenizerTest() : directory_(testing::TempDir()) {
    config_.set_kind(config::v1::Tokenizer::KIND_SENTENCEPIECE);
    config_.set_file("spiece.model");
    config_.set_max_length(6);
    config_.set_pad_id(0);
    write(write_sentencepiece_model(make_character_model()));
  }

  void write(const std::string& bytes) {
    std::ofstream(directory_ / "spiece.model", std::ios::binary) << bytes;
  }

  TokenizerOutput encode(absl::string_view prompt) {
    const auto tokenizer = Tokenizer::load(config_, directory_);
    EXPECT_TRUE(tokenizer.ok()) << tokenizer.status();
    return tokenizer.ok() ? (*tokenizer)->encode(prompt) : TokenizerOutput();
  }

  // The error of load(), which must name `part`.
  void expect_error(const char* part) {
    const absl::Status status = Tokenizer::load(config_, directory_).status();
    EXPECT_FALSE(status.ok());
    EXPECT_THAT(std::string(status.message()), HasSubstr(part));
  }

  const std::filesystem::path directory_;
  config::v1::Tokenizer config_;
};

TEST_F(TokenizerTest, PadsToMaxLength) {
  config_.set_pad_id(2);
  const TokenizerOutput output = encode("ab");
  EXPECT_THAT(output.ids, ElementsAre(3, 4, 5, 2, 2, 2));
  EXPECT_THAT(output.mask, ElementsAre(1, 1, 1, 0, 0, 0));
  EXPECT_FALSE(output.truncated);
}

TEST_F(TokenizerTest, AddsBeginAndEnd) {
  config_.set_add_bos(true);
  config_.set_add_eos(true);
  EXPECT_THAT(encode("ab").ids, ElementsAre(1, 3, 4, 5, 2, 0));
  EXPECT_THAT(encode("").ids, ElementsAre(1, 2, 0, 0, 0, 0));
  EXPECT_THAT(encode("").mask, ElementsAre(1, 1, 0, 0, 0, 0));
}

TEST_F(TokenizerTest, CutsTextButKeepsBeginAndEnd) {
  EXPECT_FALSE(encode("abcde").truncated);
  EXPECT_TRUE(encode("abcdef").truncated);
  config_.set_add_bos(true);
  config_.set_add_eos(true);
  const TokenizerOutput output = encode("abcdef");
  EXPECT_THAT(output.ids, ElementsAre(1, 3, 4, 5, 6, 2));
  EXPECT_THAT(output.mask, ElementsAre(1, 1, 1, 1, 1, 1));
  EXPECT_TRUE(output.truncated);
}

TEST_F(TokenizerTest, UnknownCharactersAndBrokenUtf8AreUnknownTokens) {
  EXPECT_THAT(encode("a\xff\xfe!b").ids, ElementsAre(3, 4, 0, 5, 0, 0));
}

TEST_F(TokenizerTest, RefusesAMissingFile) {
  config_.set_file("no_such.model");
  expect_error("no_such.model");
  config_.set_file("");
  expect_error("file is empty");
  config_.set_file(".");
  expect_error("is no file");
}

TEST_F(TokenizerTest, RefusesADamagedFile) {
  const std::string good = write_sentencepiece_model(make_character_model());
  write("");
  expect_error("spiece.model: is no SentencePiece model");
  write("not a model at all");
  expect_error("spiece.model: is no SentencePiece model");
  write(good.substr(0, good.size() - 1));
  expect_error("spiece.model: is no SentencePiece model");
}

TEST_F(TokenizerTest, RefusesAModelWithoutTheAskedForPieces) {
  SentencePieceModel model = make_character_model();
  model.pieces[1].text = "<other1>";
  model.pieces[2].text = "<other2>";
  write(write_sentencepiece_model(model));
  EXPECT_TRUE(Tokenizer::load(config_, directory_).ok());
  config_.set_add_eos(true);
  expect_error("add_eos");
  config_.set_add_eos(false);
  config_.set_add_bos(true);
  expect_error("add_bos");
}

TEST_F(TokenizerTest, RefusesNumbersOutOfRange) {
  config_.set_max_length(0);
  expect_error("max_length is 0");
  config_.set_max_length(2);
  config_.set_add_bos(true);
  config_.set_add_eos(true);
  expect_error("it must be 3");
  config_.set_max_length(70000);
  expect_error("max_length is 70000");
  config_.set_max_length(6);
  config_.set_pad_id(40);
  expect_error("ids 0 to 39");
  config_.set_pad_id(-1);
  expect_error("pad_id is -1");
}

TEST_F(TokenizerTest, RefusesAnUnknownKind) {
  config_.set_kind(config::v1::Tokenizer::KIND_UNSPECIFIED);
  expect_error("KIND_UNSPECIFIED");
}

}  // namespace
}  // namespace ferry
