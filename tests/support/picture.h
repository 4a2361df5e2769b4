#pragma once

#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace ferry {

// A picture as Pillow sees it: another reader than the libraries that write.
struct Picture {
  // PNG, JPEG or WEBP.
  std::string format;
  // Such as RGB.
  std::string mode;
  int width = 0;
  int height = 0;
  // Interleaved 8-bit RGB rows.
  std::string pixels;
  // A PNG's text chunks by key; UserComment and Software of the others.
  std::map<std::string, std::string> texts;
};

// Decodes with Debian's Python and Pillow. INVALID_ARGUMENT, with what Pillow
// says, for what it cannot read.
absl::StatusOr<Picture> read_picture(absl::string_view data);

}  // namespace ferry
