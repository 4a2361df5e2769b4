#include "pipelines/tokenizers/sentencepiece_encoder.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "gtest/gtest.h"
#include "pipelines/tokenizers/testing/sentencepiece_library.h"

// Compares with the SentencePiece library, on models that its trainer makes
// here. The library's protobuf clashes with the system's: nothing in this test
// may depend on protobuf.

namespace ferry {
namespace {

std::string temp_path(const std::string& name) {
  return (std::filesystem::path(testing::TempDir()) / name).string();
}

// Captions, with some writing systems and marks that normalisation touches.
std::string write_corpus() {
  const std::string path = temp_path("corpus.txt");
  std::ofstream file(path);
  const std::vector<std::string> sizes = {"large", "small", "tiny", "huge"};
  const std::vector<std::string> colours = {"red", "green", "blue", "yellow"};
  const std::vector<std::string> shapes = {"circle", "square", "triangle",
                                           "star", "hexagon"};
  for (const std::string& size : sizes) {
    for (const std::string& colour : colours) {
      for (const std::string& shape : shapes) {
        file << "a " << size << " " << colour << " " << shape << " on a "
             << colours[(size.size() + shape.size()) % 4] << " background\n";
      }
    }
  }
  file << "Caf\u00e9 \u00e0 la cr\u00e8me, \u00fcber 42 \u20ac\n"
       << "\u6771\u4eac\u306e\u591c\u666f \uff21\uff22\uff23 "
          "\u30ab\u30bf\u30ab\u30ca\n"
       << "\u041f\u0440\u0438\u0432\u0435\u0442, \u043c\u0438\u0440! "
          "\ufb01ne \u00bd\n";
  return path;
}

std::string train(const std::string& options) {
  return SentencePieceLibrary::train(
      "--input=" + write_corpus() +
          " --hard_vocab_limit=false --minloglevel=2 --num_threads=1 " +
          options,
      temp_path("model"));
}

// Text made of fragments that are known, unknown, white or broken.
std::string random_text(std::mt19937& random) {
  static const std::vector<std::string> kFragments = {"a",
                                                      "large",
                                                      " red",
                                                      "circle",
                                                      " ",
                                                      "  ",
                                                      "\t",
                                                      "\n",
                                                      "x",
                                                      "Z",
                                                      "qu",
                                                      "background",
                                                      "<sep>",
                                                      "<s>",
                                                      "</s>",
                                                      "<unk>",
                                                      "\xe2\x96\x81",
                                                      "\u00e9",
                                                      "e\u0301",
                                                      "\uff21",
                                                      "\ufb01",
                                                      "\u00bd",
                                                      "\u6771\u4eac",
                                                      "\u30ab\u3099",
                                                      "\U0001f389",
                                                      "\xff",
                                                      "\xe2\x96",
                                                      "\xf0\x9f\x8e",
                                                      "\xed\xa0\x80",
                                                      "\xc0\x80",
                                                      "\u3000",
                                                      "\u00a0",
                                                      "42",
                                                      "!",
                                                      "star",
                                                      "\ufffd",
                                                      "\u200b",
                                                      "\u00ad",
                                                      "<0x41>",
                                                      "triangles"};
  std::string text;
  for (size_t count = random() % 12; count > 0; --count) {
    text += kFragments[random() % kFragments.size()];
  }
  return text;
}

struct Flavour {
  const char* name;
  const char* options;
};

void PrintTo(const Flavour& flavour, std::ostream* out) {
  *out << flavour.name;
}

class SentencePieceEncoderTest : public testing::TestWithParam<Flavour> {};

TEST_P(SentencePieceEncoderTest, GivesTheLibrarysIds) {
  const std::string bytes = train(GetParam().options);
  const SentencePieceLibrary library(bytes);
  const auto encoder = SentencePieceEncoder::create(bytes);
  ASSERT_TRUE(encoder.ok()) << encoder.status();
  EXPECT_EQ((*encoder)->vocabulary_size(), library.vocabulary_size());
  EXPECT_EQ((*encoder)->bos_id(), library.bos_id());
  EXPECT_EQ((*encoder)->eos_id(), library.eos_id());
  std::mt19937 random(1);
  std::vector<std::string> texts = {
      "", " ", "a large red circle on a blue background", "  two   spaces  ",
      "tiny star, Caf\u00e9 \u00bd\u6771 \U0001f389"};
  for (int i = 0; i < 2000; ++i) texts.push_back(random_text(random));
  size_t longest = 0;
  for (const std::string& text : texts) {
    const std::vector<int> expected = library.encode(text);
    longest = std::max(longest, expected.size());
    ASSERT_EQ((*encoder)->encode(text), expected)
        << testing::PrintToString(text);
  }
  EXPECT_GT(longest, 10u);
}

INSTANTIATE_TEST_SUITE_P(
    Models, SentencePieceEncoderTest,
    testing::Values(
        Flavour{"unigram", "--model_type=unigram --vocab_size=120"},
        Flavour{"unigram_small", "--model_type=unigram --vocab_size=64"},
        Flavour{"unigram_bytes",
                "--model_type=unigram --vocab_size=400 --byte_fallback=true"},
        Flavour{"unigram_user_defined",
                "--model_type=unigram --vocab_size=120 "
                "--user_defined_symbols=<sep>,red,circle"},
        Flavour{"unigram_identity",
                "--model_type=unigram --vocab_size=120 "
                "--normalization_rule_name=identity "
                "--add_dummy_prefix=false --remove_extra_whitespaces=false"},
        Flavour{"unigram_case_folding",
                "--model_type=unigram --vocab_size=120 "
                "--normalization_rule_name=nfkc_cf"},
        Flavour{"unigram_suffix",
                "--model_type=unigram --vocab_size=120 "
                "--treat_whitespace_as_suffix=true"},
        Flavour{"unigram_no_control",
                "--model_type=unigram --vocab_size=120 --bos_id=-1 "
                "--eos_id=-1 --pad_id=1"},
        Flavour{"bpe", "--model_type=bpe --vocab_size=150"},
        Flavour{"bpe_bytes",
                "--model_type=bpe --vocab_size=400 --byte_fallback=true "
                "--split_digits=true"},
        Flavour{"bpe_user_defined",
                "--model_type=bpe --vocab_size=150 "
                "--user_defined_symbols=<sep>,red,circle"}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(SentencePieceEncoderTest, RefusesOtherModelTypes) {
  const auto encoder =
      SentencePieceEncoder::create(train("--model_type=char --vocab_size=100"));
  EXPECT_EQ(encoder.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(encoder.status().message().find("model_type 4"),
            absl::string_view::npos);
}

}  // namespace
}  // namespace ferry
