#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace ferry {

// Makes an Exif block, as it stands in a WebP; a JPEG has "Exif\0\0" before it.
//
// `text` becomes the UserComment, which is where other tools look for how a
// picture was generated, and `software` the Software tag. Both readers of
// UserComment understand it: those that follow the block's byte order and those
// that take big-endian for granted.
//
// INVALID_ARGUMENT when `text` is not UTF-8; `software` is ASCII.
// Thread-safe.
absl::StatusOr<std::string> make_exif(absl::string_view text,
                                      absl::string_view software);

}  // namespace ferry
