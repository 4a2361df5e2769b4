#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace ferry {

// A decoded PNG.
struct PngImage {
  int width = 0;
  int height = 0;
  // Interleaved 8-bit RGB rows.
  std::vector<uint8_t> pixels;
  // Text chunks by key.
  std::map<std::string, std::string> text;
};

// Decodes with libpng. INVALID_ARGUMENT for what is no PNG.
absl::StatusOr<PngImage> decode_png(absl::string_view data);

// Lower-case hex SHA-256.
std::string sha256_hex(absl::string_view data);

}  // namespace ferry
