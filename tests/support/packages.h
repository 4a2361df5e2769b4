#pragma once

#include <string>
#include <vector>

namespace ferry {

// Directories with tiny pipeline packages, made by make_tiny_pipeline when
// first asked for and kept until the test program ends. Equal flags give the
// same directory. Aborts the test program when a package cannot be made.
//
// Not thread-safe.
std::string make_package(const std::vector<std::string>& flags = {});

// Milliseconds that one step of slow_package() takes at least, on an idle
// machine.
constexpr int kSlowStepMs = 100;

// A pipeline whose steps take so long that a test can do something while it
// runs.
std::string slow_package();

// A pipeline that makes pictures of up to 1024×1024 pixels, quickly.
std::string large_package();

// A copy of a package that a test may change.
std::string copy_package(const std::string& package);

}  // namespace ferry
