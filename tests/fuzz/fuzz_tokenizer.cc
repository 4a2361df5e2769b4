#include "pipelines/tokenizers/sentencepiece_encoder.h"
#include "tests/fuzz/fuzz_targets.h"

namespace ferry {

// A SentencePiece model; its bytes are a prompt, too.
void fuzz_tokenizer(absl::string_view input) {
  const auto encoder = SentencePieceEncoder::create(input);
  if (!encoder.ok()) {
    require(absl::IsInvalidArgument(encoder.status()), "INVALID_ARGUMENT");
    return;
  }
  const int size = (*encoder)->vocabulary_size();
  require((*encoder)->bos_id() < size && (*encoder)->eos_id() < size,
          "control ids are in the vocabulary");
  for (const absl::string_view prompt :
       {absl::string_view("a b ab"), absl::string_view("  \xE6\x9D\xB1\xFF "),
        absl::string_view(""), input.substr(0, 512)}) {
    for (const int id : (*encoder)->encode(prompt)) {
      require(id >= 0 && id < size, "ids are in the vocabulary");
    }
  }
}

}  // namespace ferry
