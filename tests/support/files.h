#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace ferry {

// The test's own temporary directory. A program that Bazel does not run as a
// test sets TEST_TMPDIR itself.
std::string test_tmpdir();

// Makes a new, empty directory below test_tmpdir().
std::string make_directory(absl::string_view name);

// Absolute path of a file that the target lists in `data`, by its path in the
// repository.
std::string runfile(absl::string_view path);

// The same for a program that links LibTorch. Sanitizer builds do not make
// those: there it is the ordinary build's, in the folder that the environment's
// FERRY_PRODUCT_BIN names.
std::string product_program(absl::string_view path);

// Whether product_program() is not the runfile.
bool has_product_folder();

// The whole file; nothing when it cannot be read.
std::optional<std::string> read_file(const std::string& path);

// Writes the whole file. Aborts the test program when it cannot.
void write_file(const std::string& path, absl::string_view content);

// Names of a directory's entries, sorted; empty when there is none.
std::vector<std::string> list_directory(const std::string& path);

}  // namespace ferry
