#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ferry {

// Where a module of structure only has its parameters from; a manifest's
// `weights` and `tied_parameters`.
struct WeightSources {
  struct Component {
    // Dotted path of the module that the names in the file start at; empty:
    // the root.
    std::string path;
    // A safetensors file or an index, relative to the package.
    std::string file;
  };
  std::vector<Component> components;
  // Dotted paths from the root of parameters that are one tensor. The files
  // hold any one of each set.
  std::vector<std::vector<std::string>> ties;
  // Stored tensors at other addresses are copied. By default to where kernels
  // find other tensors: some add in another order where addresses are not a
  // multiple of 64, so that equal weights would not give equal bytes. 1 for
  // weights that are packed before they matter.
  int64_t alignment = 64;
};

}  // namespace ferry
