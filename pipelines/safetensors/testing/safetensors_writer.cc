#include "pipelines/safetensors/testing/safetensors_writer.h"

#include <fstream>
#include <nlohmann/json.hpp>
#include <system_error>

#include "absl/strings/str_cat.h"

namespace ferry {

std::string with_header_length(absl::string_view header) {
  std::string text;
  for (uint64_t length = header.size(); text.size() < 8; length >>= 8) {
    text += static_cast<char>(length & 0xFF);
  }
  return absl::StrCat(text, header);
}

std::string make_safetensors_header(const std::vector<TensorToWrite>& tensors,
                                    int odd_bytes) {
  nlohmann::json header = {{"__metadata__", {{"format", "pt"}}}};
  size_t offset = 0;
  for (const TensorToWrite& tensor : tensors) {
    const size_t end = offset + tensor.data.size();
    header[tensor.name] = {{"dtype", tensor.dtype},
                           {"shape", tensor.shape},
                           {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text = header.dump();
  const size_t end = text.size() + 8;
  text.append((64 - end % 64) % 64 + static_cast<size_t>(odd_bytes), ' ');
  return with_header_length(text);
}

absl::Status write_safetensors(const std::filesystem::path& path,
                               const std::vector<TensorToWrite>& tensors,
                               int odd_bytes) {
  std::error_code error;
  std::filesystem::create_directories(path.parent_path(), error);
  std::ofstream stream(path, std::ios::binary);
  stream << make_safetensors_header(tensors, odd_bytes);
  for (const TensorToWrite& tensor : tensors) {
    stream.write(tensor.data.data(),
                 static_cast<std::streamsize>(tensor.data.size()));
  }
  stream.close();
  if (stream) return absl::OkStatus();
  return absl::UnknownError(absl::StrCat(path.string(), ": cannot be written"));
}

}  // namespace ferry
