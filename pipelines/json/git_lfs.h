#pragma once

#include <cstddef>

#include "absl/strings/string_view.h"

namespace ferry {

// What an error says of a Git LFS pointer, as half a sentence.
inline constexpr char kGitLfsDefect[] =
    "is a Git LFS pointer; fetch the file with git lfs pull";

// As much of a file's start as is_git_lfs_pointer() looks at.
inline constexpr size_t kGitLfsPointerBytes = 64;

// Whether a file that begins with `start` is a Git LFS pointer: a few lines of
// text that git leaves in place of a large file that was not fetched.
bool is_git_lfs_pointer(absl::string_view start);

}  // namespace ferry
