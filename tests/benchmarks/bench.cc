// Measures the daemon. Prints JSON lines on standard output.
//
//   bench PACKAGE [BENCHMARK]

#include <filesystem>
#include <functional>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/benchmarks/cancel_latency.h"
#include "tests/benchmarks/generate_overhead.h"
#include "tests/benchmarks/measurement.h"
#include "tests/benchmarks/start_time.h"
#include "tests/benchmarks/stream_rate.h"
#include "tests/benchmarks/supervision.h"
#include "tests/benchmarks/unary_rate.h"

namespace ferry {
namespace {

// All of them when `name` is empty.
void run(const std::string& package, const std::string& name) {
  const std::vector<std::pair<std::string, std::function<void()>>> benchmarks =
      {
          {"start_time", [&] { measure_start_time(package); }},
          {"generate_overhead", [&] { measure_generate_overhead(package); }},
          {"unary_rate", [&] { measure_unary_rate(package); }},
          {"cancel_latency", measure_cancel_latency},
          {"stream_rate", measure_stream_rate},
      };
  bool found = false;
  for (const auto& [benchmark, measure] : benchmarks) {
    if (!name.empty() && name != benchmark) continue;
    std::cerr << benchmark << std::endl;
    measure();
    found = true;
  }
  require(found, absl::StrCat("there is no benchmark '", name, "'"));
}

}  // namespace
}  // namespace ferry

int main(int argc, char** argv) {
  if (argc != 2 && argc != 3) {
    std::cerr << "bench PACKAGE [BENCHMARK]" << std::endl;
    return 1;
  }
  const std::string package = std::filesystem::absolute(argv[1]);
  const std::string name = argc == 3 ? argv[2] : "";
  return ferry::run_supervised([&] { ferry::run(package, name); });
}
