#pragma once

#include <functional>
#include <string>

#include "absl/strings/string_view.h"

namespace ferry {

// Cuts a stream of bytes into lines that are safe to log: without control
// characters, in UTF-8, of at most kMaxBytes of input. The rest of a longer
// line is dropped, and the line says so.
//
// Pure. Not thread-safe.
class LineSplitter {
 public:
  static constexpr size_t kMaxBytes = size_t{16} << 10;

  using Sink = std::function<void(std::string line)>;

  // Takes the next bytes and calls `sink` for each line that ends in them.
  void add(absl::string_view bytes, const Sink& sink);
  // The stream has ended: a line without its end is one too.
  void finish(const Sink& sink);

 private:
  void append(absl::string_view bytes);
  void emit(const Sink& sink);

  std::string line_;
  size_t dropped_bytes_ = 0;
};

}  // namespace ferry
