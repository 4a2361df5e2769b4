#pragma once

#include <torch/csrc/jit/api/module.h>

#include <string>
#include <vector>

namespace ferry {

// Everything that methods of a component can write, and every way to draw
// random numbers: names for add_tiny_state().
std::vector<std::string> tiny_state_kinds();

// Gives a module state of a kind, and the method
//   remember(x: Tensor) -> Tensor
// which writes it, and returns x with something added that depends on what it
// had been before.
void add_tiny_state(const std::string& kind, torch::jit::Module* module);

}  // namespace ferry
