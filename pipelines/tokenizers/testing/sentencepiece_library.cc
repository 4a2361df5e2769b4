#include "pipelines/tokenizers/testing/sentencepiece_library.h"

#include <sentencepiece_processor.h>
#include <sentencepiece_trainer.h>

#include <fstream>
#include <sstream>
#include <stdexcept>

namespace ferry {
namespace {

void check(const sentencepiece::util::Status& status) {
  if (!status.ok()) throw std::runtime_error(status.ToString());
}

}  // namespace

struct SentencePieceLibrary::Impl {
  sentencepiece::SentencePieceProcessor processor;
};

std::string SentencePieceLibrary::train(const std::string& options,
                                        const std::string& prefix) {
  check(sentencepiece::SentencePieceTrainer::Train(
      options + " --model_prefix=" + prefix));
  std::ifstream file(prefix + ".model", std::ios::binary);
  std::ostringstream bytes;
  bytes << file.rdbuf();
  return bytes.str();
}

SentencePieceLibrary::SentencePieceLibrary(const std::string& model_bytes)
    : impl_(std::make_unique<Impl>()) {
  check(impl_->processor.LoadFromSerializedProto(model_bytes));
}

SentencePieceLibrary::~SentencePieceLibrary() = default;

std::vector<int> SentencePieceLibrary::encode(const std::string& text) const {
  return impl_->processor.EncodeAsIds(text);
}

int SentencePieceLibrary::vocabulary_size() const {
  return impl_->processor.GetPieceSize();
}

int SentencePieceLibrary::bos_id() const { return impl_->processor.bos_id(); }

int SentencePieceLibrary::eos_id() const { return impl_->processor.eos_id(); }

}  // namespace ferry
