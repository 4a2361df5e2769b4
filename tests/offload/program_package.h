#pragma once

#include <torch/csrc/jit/api/module.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "pipelines/torchscript/weight_sources.h"
#include "tests/offload/random_program.h"

namespace ferry {

// What a package has of a program.
enum class ProgramForm {
  // The methods as they are written, with the tensors.
  kScripted,
  // What torch.jit.trace_module() makes of them (trace_program.h).
  kTraced,
  // The methods as they are written; all tensors of weights and buffers are
  // parameters, whose values lie beside the archive, in a safetensors file.
  kCodeOnly,
};
const char* to_string(ProgramForm form);

// A program in a form, as it lies in a package: makes as many modules of it as
// are asked for, each with types and tensors of its own.
//
// Ownership: owns the files of its weights, which lie in a folder of their own
//   for as long as it lives.
// Threads: not thread-safe.
class ProgramPackage {
 public:
  // LibTorch's errors as a status.
  static absl::StatusOr<std::unique_ptr<ProgramPackage>> create(
      const RandomProgram& program, ProgramForm form);
  ~ProgramPackage();
  ProgramPackage(const ProgramPackage&) = delete;
  ProgramPackage& operator=(const ProgramPackage&) = delete;

  // As it is packed: of kCodeOnly with other attributes.
  const RandomProgram& program() const { return program_; }
  absl::StatusOr<torch::jit::Module> load() const;
  // The same in memory only, `count` modules, which may share types. They can
  // be run as they are: nothing of them is mapped from a file.
  absl::StatusOr<std::vector<torch::jit::Module>> load_resident(
      int count) const;

 private:
  ProgramPackage(RandomProgram program, ProgramForm form)
      : program_(std::move(program)), form_(form) {}
  absl::Status pack();

  const RandomProgram program_;
  const ProgramForm form_;
  // Not of kScripted.
  std::string archive_;
  std::filesystem::path directory_;
  WeightSources sources_;
};

}  // namespace ferry
