#pragma once

#include <torch/csrc/jit/api/module.h>

#include <string>

#include "tests/offload/random_program.h"

namespace ferry {

// The archive that torch.jit.trace_module() makes of a program: its methods run
// once, and LibTorch's tracer records the operators that they call. So each
// module has a type of its own with a `forward` for each time that it ran,
// there are no branches, loops, functions, hooks and attributes but modules,
// parameters and buffers; other tensors are constants of graphs. What hooks and
// functions did with a block stands in the graph of the module around it.
//
// The tensors have the values that the program is loaded with. Throws what
// LibTorch throws.
std::string trace_program(const RandomProgram& program);

}  // namespace ferry
