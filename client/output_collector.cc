#include "client/output_collector.h"

#include <openssl/evp.h>

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace ferry {

absl::StatusOr<std::optional<FinishedOutput>> OutputCollector::add(
    const v1::OutputChunk& chunk) {
  std::string& data = partial_[chunk.index()];
  if (chunk.offset() != static_cast<int64_t>(data.size())) {
    return absl::DataLossError(absl::StrCat("output ", chunk.index(),
                                            ": expected offset ", data.size(),
                                            ", got ", chunk.offset()));
  }
  data += chunk.data();
  if (!chunk.has_final_info()) return std::nullopt;

  FinishedOutput output{chunk.final_info(), std::move(data)};
  partial_.erase(chunk.index());
  const int64_t size = static_cast<int64_t>(output.data.size());
  if (size != output.info.size_bytes()) {
    return absl::DataLossError(absl::StrCat("output ", chunk.index(), ": got ",
                                            size, " bytes of ",
                                            output.info.size_bytes()));
  }
  if (sha256_hex(output.data) != output.info.sha256()) {
    return absl::DataLossError(
        absl::StrCat("output ", chunk.index(),
                     ": the SHA-256 of the bytes is not the server's"));
  }
  return output;
}

std::string sha256_hex(const std::string& data) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int length = 0;
  EVP_Digest(data.data(), data.size(), digest, &length, EVP_sha256(), nullptr);
  return absl::BytesToHexString(
      absl::string_view(reinterpret_cast<const char*>(digest), length));
}

std::string output_path(const std::string& path, int index, int count) {
  if (count <= 1) return path;
  const size_t slash = path.rfind('/');
  const size_t name = slash == path.npos ? 0 : slash + 1;
  size_t dot = path.rfind('.');
  // A dot at the start of the name begins no extension.
  if (dot == path.npos || dot <= name) dot = path.size();
  return absl::StrCat(path.substr(0, dot), "-", index, path.substr(dot));
}

}  // namespace ferry
