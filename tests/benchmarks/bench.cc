// Measures the daemon. Prints JSON lines on standard output.
//
//   bench PACKAGE

#include <cstdlib>
#include <filesystem>
#include <string>

#include "tests/benchmarks/generate_overhead.h"
#include "tests/benchmarks/measurement.h"
#include "tests/benchmarks/start_time.h"

namespace ferry {
namespace {

int run(const std::string& package) {
  char directory[] = "/tmp/ferry_bench_XXXXXX";
  require(mkdtemp(directory) != nullptr, "cannot make a directory");
  setenv("TEST_TMPDIR", directory, 1);
  measure_start_time(package);
  measure_generate_overhead(package);
  std::filesystem::remove_all(directory);
  return 0;
}

}  // namespace
}  // namespace ferry

int main(int argc, char** argv) {
  ferry::require(argc == 2, "takes one argument, a pipeline package");
  return ferry::run(std::filesystem::absolute(argv[1]).string());
}
