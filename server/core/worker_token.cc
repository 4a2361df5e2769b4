#include "server/core/worker_token.h"

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "platform/base/sha256.h"

namespace ferry {
namespace {

constexpr size_t kMinBytes = 16;
constexpr size_t kMaxBytes = 256;
// With room for white space.
constexpr size_t kMaxFileBytes = 2 * kMaxBytes;

absl::StatusOr<std::string> read_start_of(const std::string& path) {
  std::error_code error;
  std::ifstream file(path);
  if (!file.is_open() || std::filesystem::is_directory(path, error)) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot read \"", path, "\""));
  }
  std::string text(kMaxFileBytes, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(file.gcount()));
  return text;
}

}  // namespace

absl::StatusOr<std::string> read_worker_token(const std::string& path) {
  const absl::StatusOr<std::string> text = read_start_of(path);
  if (!text.ok()) return text.status();
  const absl::string_view token = absl::StripAsciiWhitespace(*text);
  if (token.size() < kMinBytes || token.size() > kMaxBytes ||
      !std::all_of(token.begin(), token.end(), absl::ascii_isgraph)) {
    // What it holds may be a secret of something else.
    return absl::InvalidArgumentError(
        absl::StrCat("\"", path, "\" must hold ", kMinBytes, " to ", kMaxBytes,
                     " printable ASCII characters without a space"));
  }
  return std::string(token);
}

bool tokens_equal(absl::string_view a, absl::string_view b) {
  // Digests have equal lengths, and where they differ tells nothing of a token.
  const std::string digest_a = sha256_hex(a);
  const std::string digest_b = sha256_hex(b);
  unsigned char difference = 0;
  for (size_t i = 0; i < digest_a.size(); ++i) {
    difference = static_cast<unsigned char>(
        difference | (static_cast<unsigned char>(digest_a[i]) ^
                      static_cast<unsigned char>(digest_b[i])));
  }
  return difference == 0;
}

}  // namespace ferry
