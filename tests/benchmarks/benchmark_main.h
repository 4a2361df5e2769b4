#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace ferry {

// In the order in which they run.
using Benchmarks = std::vector<std::pair<std::string, std::function<void()>>>;

// The main() of a program of benchmarks: PROGRAM PACKAGE [BENCHMARK]. Runs the
// one that is named, or all that `make` makes for the package. Returns the exit
// code: 3 when none has that name.
int benchmark_main(
    int argc, char** argv,
    const std::function<Benchmarks(const std::string& package)>& make);

}  // namespace ferry
