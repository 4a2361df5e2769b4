#pragma once

#include <torch/csrc/jit/api/module.h>

#include <map>
#include <memory>
#include <string>

#include "tests/offload/random_program.h"

namespace ferry {

// A program that is compiled as torch.jit.load() compiles an archive's source.
// Throws LibTorch's exceptions: a program that does not compile is a fault of
// its generator.
class CompiledProgram {
 public:
  explicit CompiledProgram(RandomProgram program);
  ~CompiledProgram();
  CompiledProgram(const CompiledProgram&) = delete;
  CompiledProgram& operator=(const CompiledProgram&) = delete;

  // Another module, whose tensors depend on the seed. All of them share their
  // types, and so their methods.
  torch::jit::Module make_root() const;

 private:
  class Compiler;
  const RandomProgram program_;
  const std::unique_ptr<Compiler> compiler_;
};

// A module with types of its own.
torch::jit::Module load_program(const RandomProgram& program);

// How often each operator ("aten::add") stands in the methods of a program, and
// in the functions that they call.
std::map<std::string, int> count_operators(const torch::jit::Module& root);

}  // namespace ferry
