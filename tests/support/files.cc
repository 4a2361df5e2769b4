#include "tests/support/files.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "absl/strings/str_cat.h"

namespace ferry {
namespace {

constexpr char kProductFolder[] = "FERRY_PRODUCT_BIN";

}  // namespace

std::string test_tmpdir() {
  const char* directory = getenv("TEST_TMPDIR");
  return directory != nullptr ? directory : "/tmp";
}

std::string make_directory(absl::string_view name) {
  static int counter = 0;
  const std::string path =
      absl::StrCat(test_tmpdir(), "/", name, ".", getpid(), ".", counter++);
  std::filesystem::create_directories(path);
  return path;
}

std::string runfile(absl::string_view path) {
  std::string root;
  if (const char* test_root = getenv("TEST_SRCDIR")) {
    root = test_root;
  } else {
    // Not run as a test: the runfiles lie beside the program.
    root =
        std::filesystem::read_symlink("/proc/self/exe").string() + ".runfiles";
  }
  return absl::StrCat(root, "/ferry/", path);
}

std::string product_program(absl::string_view path) {
  const char* folder = getenv(kProductFolder);
  return folder == nullptr ? runfile(path) : absl::StrCat(folder, "/", path);
}

bool has_product_folder() { return getenv(kProductFolder) != nullptr; }

std::optional<std::string> read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return std::nullopt;
  std::ostringstream content;
  content << file.rdbuf();
  return content.str();
}

void write_file(const std::string& path, absl::string_view content) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << content;
  file.close();
  if (!file) {
    fprintf(stderr, "cannot write %s\n", path.c_str());
    abort();
  }
}

std::vector<std::string> list_directory(const std::string& path) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(path, error)) {
    names.push_back(entry.path().filename());
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace ferry
