#include "tests/benchmarks/benchmark_main.h"

#include <filesystem>
#include <iostream>

#include "tests/benchmarks/supervision.h"

namespace ferry {
namespace {

constexpr int kWrongUsage = 1;
constexpr int kNoSuchBenchmark = 3;

}  // namespace

int benchmark_main(
    int argc, char** argv,
    const std::function<Benchmarks(const std::string& package)>& make) {
  if (argc != 2 && argc != 3) {
    std::cerr << argv[0] << " PACKAGE [BENCHMARK]" << std::endl;
    return kWrongUsage;
  }
  const std::string name = argc == 3 ? argv[2] : "";
  Benchmarks chosen;
  for (auto& benchmark : make(std::filesystem::absolute(argv[1]))) {
    if (name.empty() || name == benchmark.first) {
      chosen.push_back(std::move(benchmark));
    }
  }
  if (chosen.empty()) return kNoSuchBenchmark;
  return run_supervised([&] {
    for (const auto& [benchmark, measure] : chosen) {
      std::cerr << benchmark << std::endl;
      measure();
    }
  });
}

}  // namespace ferry
