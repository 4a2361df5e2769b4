#pragma once

#include <memory>
#include <string>
#include <vector>

namespace ferry {

// The SentencePiece library, as the reference for ours. Its header does not
// go with Abseil's, nor its code with protobuf: a test that uses this may
// depend on no protobuf.
class SentencePieceLibrary {
 public:
  // Trains a model with the library's command-line `options` (the input file
  // among them) and returns the model file's bytes; `prefix` is a path for
  // temporary files. Throws std::runtime_error.
  static std::string train(const std::string& options,
                           const std::string& prefix);

  // Throws std::runtime_error when the library refuses the bytes.
  explicit SentencePieceLibrary(const std::string& model_bytes);
  ~SentencePieceLibrary();

  std::vector<int> encode(const std::string& text) const;
  int vocabulary_size() const;
  int bos_id() const;
  int eos_id() const;

 private:
  struct Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace ferry
