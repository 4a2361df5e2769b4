#pragma once

#include <torch/csrc/jit/api/module.h>

#include <map>
#include <string>

#include "tests/offload/random_program.h"

namespace ferry {

// Compiles a program's source as torch.jit.load() compiles an archive's, and
// gives its attributes tensors that depend on the seed. Each call makes another
// module, with types of its own. Throws LibTorch's exceptions: a program that
// does not compile is a fault of its generator.
torch::jit::Module load_program(const RandomProgram& program);

// How often each operator ("aten::add") stands in the methods of a program, and
// in the functions that they call.
std::map<std::string, int> count_operators(const torch::jit::Module& root);

}  // namespace ferry
