#include "server/supervisor/line_splitter.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "platform/base/log_escape.h"

namespace ferry {

void LineSplitter::add(absl::string_view bytes, const Sink& sink) {
  while (true) {
    const size_t end = bytes.find('\n');
    append(bytes.substr(0, end));
    if (end == absl::string_view::npos) return;
    emit(sink);
    bytes.remove_prefix(end + 1);
  }
}

void LineSplitter::finish(const Sink& sink) {
  if (!line_.empty()) emit(sink);
}

void LineSplitter::append(absl::string_view bytes) {
  const size_t taken = std::min(bytes.size(), kMaxBytes - line_.size());
  line_.append(bytes.data(), taken);
  dropped_bytes_ += bytes.size() - taken;
}

void LineSplitter::emit(const Sink& sink) {
  std::string escaped;
  append_log_text(absl::StripSuffix(line_, "\r"), &escaped);
  if (dropped_bytes_ > 0) {
    absl::StrAppend(&escaped, " … (", dropped_bytes_, " bytes more)");
  }
  line_.clear();
  dropped_bytes_ = 0;
  sink(std::move(escaped));
}

}  // namespace ferry
