#include "tests/support/packages.h"

#include <cstdlib>
#include <filesystem>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "tests/support/child_process.h"
#include "tests/support/files.h"

namespace ferry {

std::string make_package(const std::vector<std::string>& flags) {
  static auto* const packages =
      new std::map<std::vector<std::string>, std::string>();
  std::string& directory = (*packages)[flags];
  if (!directory.empty()) return directory;
  directory = make_directory("package");
  ChildProcess::Options options;
  options.arguments = {product_program("pipelines/testing/make_tiny_pipeline"),
                       absl::StrCat("--output=", directory)};
  options.arguments.insert(options.arguments.end(), flags.begin(), flags.end());
  const ProcessResult result = run_process(options);
  if (result.exit.code != 0) {
    fprintf(stderr, "make_tiny_pipeline failed: %s\n", result.err.c_str());
    abort();
  }
  return directory;
}

std::string slow_package() {
  return make_package({absl::StrCat("--step_ms=", kSlowStepMs)});
}

std::string large_package() {
  static auto* const package = new std::string();
  if (!package->empty()) return *package;
  *package = copy_package(make_package());
  const std::string manifest = *package + "/ferry.txtpb";
  write_file(manifest, absl::StrReplaceAll(
                           read_file(manifest).value_or(""),
                           {{"max_edge: 128", "max_edge: 1024"},
                            {"max_pixels: 16384", "max_pixels: 1048576"}}));
  return *package;
}

std::string copy_package(const std::string& package) {
  const std::string copy = make_directory("package_copy");
  std::filesystem::copy(package, copy,
                        std::filesystem::copy_options::recursive);
  return copy;
}

}  // namespace ferry
